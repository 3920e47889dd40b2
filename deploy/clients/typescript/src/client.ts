/** The client: one method for each operation, with retries, pages and waiting. */

import {
  ApiError,
  Misconfigured,
  RouteEnded,
  ServiceUnreachable,
  UnexpectedAnswer,
  WaitTimeout,
  retryAfterSeconds,
} from "./errors.ts";
import type { Driver, LoadPreview, Me, PreviewInput, Route, RouteInput, RouteList, RouteStatus, Vehicle } from "./models.ts";

export const VERSION = "1.0.0";

const ATTEMPT_SECONDS = 30;
const FIRST_WAIT_SECONDS = 0.5;
const LONGEST_WAIT_SECONDS = 10;
const FIRST_POLL_SECONDS = 1;
const LONGEST_POLL_SECONDS = 30;
const POLL_GROWTH = 1.5;
const RETRIED = new Set([429, 500, 502, 503, 504]);
const ORDER = ["pending", "pending_mapping", "pending_window", "draft", "planned", "active", "completed"];
const ENDED = new Set(["completed", "error", "canceled"]);
const OUTCOMES = { 201: "created", 200: "updated", 202: "held" } as const;

export interface Options {
  /** Such as `https://api.example.com`; FUELROUTE_API_URL by default. */
  baseUrl?: string;
  /** FUELROUTE_API_KEY by default. */
  apiKey?: string;
  /** How long a call may take with all its retries; 60 by default. */
  timeoutSeconds?: number;
  /** Another fetch, say one that goes through a proxy. */
  fetch?: typeof fetch;
}

/** A route that the service has accepted. */
export interface Pushed {
  route: Route;
  /**
   * `held`: stored, and imported by itself once `route.pending` no longer applies; nothing needs to be sent again. A
   * push that is repeated after a lost answer finds its own route, and so says `updated` where it created one.
   */
  outcome: "created" | "updated" | "held";
}

export interface RouteFilter {
  status?: RouteStatus;
  externalId?: string;
  vehicleId?: string;
  /** Scheduled start at or after this time. */
  from?: Date | string;
  /** Scheduled start before this time. */
  to?: Date | string;
}

/** A route that has changed, as it is now. */
export interface Change {
  route: Route;
  /**
   * The place to go on from, once this change is processed: store it. Within a page it leads to the page's start, so
   * that a program which stops there sees some changes again; it is undefined where the first page has none.
   */
  cursor: string | undefined;
}

export interface WaitOptions {
  /** 600 by default. */
  timeoutSeconds?: number;
  /** Called with each state of the route on the way. */
  onChange?: (route: Route) => void;
}

interface Call {
  method: "GET" | "POST" | "DELETE";
  path: string;
  query?: Record<string, unknown>;
  body?: string;
  etag?: string | undefined;
  expect?: readonly number[];
  timeoutSeconds?: number;
}

/** An answer whose body has arrived. */
interface Reply {
  status: number;
  headers: Headers;
  text: string;
}

interface Page<Item> {
  data: Item[];
  total: number;
}

export class Fuelroute {
  readonly baseUrl: string;
  readonly timeoutSeconds: number;
  readonly #key: string;
  readonly #fetch: typeof fetch;

  constructor(options: Options = {}) {
    this.baseUrl = checkedUrl(options.baseUrl ?? fromEnvironment("FUELROUTE_API_URL"));
    this.#key = checkedKey(options.apiKey ?? fromEnvironment("FUELROUTE_API_KEY"));
    this.timeoutSeconds = options.timeoutSeconds ?? 60;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** The key's company, scopes, environment and rate limit. */
  me(): Promise<Me> {
    return this.#get("/v1/me");
  }

  /**
   * Creates the route, or updates the one with its `externalId`. Throws ApiError: 400 `validation_error` names every
   * invalid field, 409 `route_active` says that the truck is under way.
   */
  async pushRoute(route: RouteInput): Promise<Pushed> {
    const reply = await this.#call({
      method: "POST",
      path: "/v1/routes",
      body: JSON.stringify(route),
      expect: [201, 200, 202],
    });
    return { route: read(reply), outcome: OUTCOMES[reply.status as keyof typeof OUTCOMES] };
  }

  /**
   * The fuel of a load before anybody takes it; nothing is stored. Throws ApiError: 400 `validation_error` names every
   * invalid field, 404 `not_found` says that the company has no route with the `routeId`.
   */
  async previewLoad(load: PreviewInput): Promise<LoadPreview> {
    return read(await this.#call({ method: "POST", path: "/planning/preview", body: JSON.stringify(load) }));
  }

  /** Throws ApiError 404 `not_found`. */
  getRoute(id: string): Promise<Route> {
    return this.#get(pathOf(id));
  }

  /** The newest route with the `externalId`. */
  async findRoute(externalId: string): Promise<Route | undefined> {
    // a program in JavaScript may give undefined, which filters nothing: the first route would be any other load
    return (await this.#page<Page<Route>>("/v1/routes", { externalId: externalId ?? "" })).data[0];
  }

  /** Cancels the route; a canceled one stays so. Throws ApiError: 404 `not_found`, 409 `route_active`. */
  async cancelRoute(id: string): Promise<void> {
    await this.#call({ method: "DELETE", path: pathOf(id), expect: [204] });
  }

  /**
   * Routes, latest scheduled start first, page by page. A route that is pushed meanwhile may move another one to the
   * next page, where it comes again. One that leaves the list meanwhile, as its status is no longer the filter's, may
   * move another one to a page that was read: that one does not come. `changes` misses none.
   */
  routes(filter: RouteFilter = {}): AsyncGenerator<Route, void, void> {
    return this.#items("/v1/routes", { ...filter });
  }

  /** The company's vehicles, page by page. */
  vehicles(filter: { unitNumber?: string; vin?: string } = {}): AsyncGenerator<Vehicle, void, void> {
    return this.#items("/v1/vehicles", filter);
  }

  /** The company's drivers whose full name contains `name`, page by page. */
  drivers(filter: { name?: string } = {}): AsyncGenerator<Driver, void, void> {
    return this.#items("/v1/drivers", filter);
  }

  /**
   * Routes that have changed since a time, or since a cursor that an earlier change gave, in the order of their last
   * changes. It ends at the present; ask again later with the last `cursor`. No change is missed.
   */
  async *changes(from: { since: Date | string } | { cursor: string }): AsyncGenerator<Change, void, void> {
    let place: Record<string, unknown> = "cursor" in from ? { cursor: from.cursor } : { updatedSince: from.since };
    for (;;) {
      const page = await this.#page<RouteList>("/v1/routes", { ...place, limit: 100 });
      const next = page.nextCursor;
      if (next === undefined) throw new UnexpectedAnswer("this service tells no changes: its release is too old");
      const cursor = place["cursor"] as string | undefined;
      for (const [index, route] of page.data.entries()) {
        yield { route, cursor: index === page.data.length - 1 ? next : cursor };
      }
      if (page.total <= page.limit) return;
      place = { cursor: next };
    }
  }

  /**
   * The route, once it is in `status` or further on its way. Polls with the route's `ETag`, in growing pauses. Throws
   * RouteEnded when it cannot get there any more, and WaitTimeout.
   */
  async waitUntil(id: string, status: RouteStatus, options: WaitOptions = {}): Promise<Route> {
    const waitSeconds = options.timeoutSeconds ?? 600;
    const deadline = now() + waitSeconds;
    let known: { route: Route; etag: string | undefined } | undefined;
    let pause = FIRST_POLL_SECONDS;
    for (;;) {
      const timeoutSeconds = Math.min(this.timeoutSeconds, Math.max(deadline - now(), 1));
      const etag = known?.etag;
      const expect = etag === undefined ? [200] : [200, 304];
      const reply = await this.#call({ method: "GET", path: pathOf(id), etag, expect, timeoutSeconds });
      if (reply.status === 200 || known === undefined) {
        known = { route: read(reply), etag: reply.headers.get("ETag") ?? undefined };
        pause = FIRST_POLL_SECONDS;
        options.onChange?.(known.route);
        if (hasReached(known.route.status, status)) return known.route;
        if (ENDED.has(known.route.status)) throw new RouteEnded(known.route, status);
      }
      const left = deadline - now();
      if (left <= 0) throw new WaitTimeout(known.route, status, waitSeconds);
      await sleep(Math.min(pause, left));
      pause = Math.min(pause * POLL_GROWTH, LONGEST_POLL_SECONDS);
    }
  }

  async #get<Shape>(path: string): Promise<Shape> {
    return read<Shape>(await this.#call({ method: "GET", path }));
  }

  async #page<Shape extends Page<unknown>>(path: string, query: Record<string, unknown>): Promise<Shape> {
    const reply = await this.#call({ method: "GET", path, query });
    const page = read<Shape>(reply);
    if (!Array.isArray(page.data)) throw unexpected(reply);
    return page;
  }

  async *#items<Item>(path: string, filter: Record<string, unknown>): AsyncGenerator<Item, void, void> {
    for (let offset = 0; ; ) {
      const page = await this.#page<Page<Item>>(path, { ...filter, limit: 100, offset });
      yield* page.data;
      offset += page.data.length;
      if (page.data.length === 0 || offset >= page.total) return;
    }
  }

  /**
   * Every call of this API may be repeated: a push is idempotent by its `externalId`, a preview stores nothing. So
   * 429, 500, 502, 503, 504 and lost connections are retried until the time is over.
   */
  async #call(call: Call): Promise<Reply> {
    const deadline = now() + (call.timeoutSeconds ?? this.timeoutSeconds);
    for (let attempt = 0; ; attempt++) {
      const reply = await this.#attempt(call, Math.max(deadline - now(), 0.1));
      if (!(reply instanceof ServiceUnreachable) && (call.expect ?? [200]).includes(reply.status)) return reply;
      const wait = waitSeconds(reply, attempt);
      if (wait === undefined || now() + wait >= deadline) throw failure(reply);
      await sleep(wait);
    }
  }

  async #attempt(call: Call, secondsLeft: number): Promise<Reply | ServiceUnreachable> {
    const url = new URL(this.baseUrl + call.path);
    for (const [name, value] of Object.entries(call.query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, value instanceof Date ? value.toISOString() : String(value));
    }
    try {
      const answer = await this.#fetch(url, {
        method: call.method,
        headers: {
          Authorization: `Bearer ${this.#key}`,
          Accept: "application/json",
          "User-Agent": `fuelroute-client-typescript/${VERSION}`,
          ...(call.body === undefined ? {} : { "Content-Type": "application/json" }),
          ...(call.etag === undefined ? {} : { "If-None-Match": call.etag }),
        },
        body: call.body ?? null,
        redirect: "manual",
        cache: "no-store",
        signal: AbortSignal.timeout(Math.ceil(1000 * Math.min(secondsLeft, ATTEMPT_SECONDS))),
      });
      return { status: answer.status, headers: answer.headers, text: await answer.text() };
    } catch (cause) {
      return new ServiceUnreachable(`the service does not answer: ${reasonOf(cause)}`, { cause });
    }
  }
}

/**
 * The pause before the next attempt, or undefined when another one would not help. Random, so that clients which failed
 * together do not come back together.
 */
function waitSeconds(reply: Reply | ServiceUnreachable, attempt: number): number | undefined {
  const longest = Math.min(FIRST_WAIT_SECONDS * 2 ** attempt, LONGEST_WAIT_SECONDS);
  const backoff = longest * (0.5 + Math.random() / 2);
  if (reply instanceof ServiceUnreachable) return backoff;
  if (!RETRIED.has(reply.status)) return undefined;
  const asked = retryAfterSeconds(reply.headers);
  return asked === undefined ? backoff : asked + Math.random() / 2;
}

function failure(reply: Reply | ServiceUnreachable): Error {
  if (reply instanceof ServiceUnreachable) return reply;
  const problem = parsed(reply.text);
  if (isProblem(problem)) return new ApiError(reply.status, problem, reply.headers);
  if (reply.status < 400) return unexpected(reply);
  const detail = `no problem document, but ${JSON.stringify(reply.text.slice(0, 200))}`;
  return new ApiError(reply.status, { code: `http_${reply.status}`, detail }, reply.headers);
}

/** Tells whether it is the API's: that of a gateway may have other `errors`. */
function isProblem(document: unknown): document is ConstructorParameters<typeof ApiError>[1] {
  const { code, errors } = (document ?? {}) as { code?: unknown; errors?: unknown };
  const faults: unknown = errors ?? [];
  return typeof code === "string" && Array.isArray(faults) && faults.every((one) => typeof one?.message === "string");
}

function unexpected(reply: Reply): UnexpectedAnswer {
  const location = reply.headers.get("Location");
  const where = location === null ? "" : ` to ${JSON.stringify(location)}`;
  const begins = JSON.stringify(reply.text.slice(0, 100));
  return new UnexpectedAnswer(
    `${reply.status}${where} is no answer of the API; is the address right? It begins ${begins}`,
  );
}

/** Unknown fields and values are passed on: the service may be newer than this client. */
function read<Shape>(reply: Reply): Shape {
  const document = parsed(reply.text);
  if (typeof document !== "object" || document === null) throw unexpected(reply);
  return document as Shape;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function hasReached(status: string, wanted: string): boolean {
  if (ORDER.includes(status) && ORDER.includes(wanted)) return ORDER.indexOf(status) >= ORDER.indexOf(wanted);
  return status === wanted;
}

function pathOf(id: string): string {
  return `/v1/routes/${encodeURIComponent(id)}`;
}

function checkedUrl(text: string): string {
  if (text === "") {
    throw new Misconfigured("no address: give baseUrl, or set FUELROUTE_API_URL, such as https://api.example.com");
  }
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    throw new Misconfigured("baseUrl must begin with https:// (or http://) and a host");
  }
  return text.replace(/\/+$/, "");
}

function checkedKey(text: string): string {
  const key = text.trim();
  if (key === "") throw new Misconfigured("no API key: give apiKey, or set FUELROUTE_API_KEY");
  if (!/^[!-~]+$/.test(key)) throw new Misconfigured("the API key has characters that no key has"); // never the key
  return key;
}

function fromEnvironment(name: string): string {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] ?? "";
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  return cause.cause instanceof Error ? cause.cause.message || cause.message : cause.message;
}

function now(): number {
  return performance.now() / 1000;
}

function sleep(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
}
