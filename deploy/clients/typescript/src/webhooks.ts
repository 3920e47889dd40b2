/** Verifies webhooks by the rules of Standard Webhooks (standardwebhooks.com): HMAC-SHA256 over id, time and body. */

import { InvalidWebhook, Misconfigured } from "./errors.ts";
import type { Route } from "./models.ts";

/** How far the time of a webhook may be from now. An old request that somebody recorded is refused. */
const TOLERANCE_SECONDS = 300;

/** An event. The same event may come more than once, with the same `id`: remember the ids that you have handled. */
export interface WebhookEvent {
  id: string;
  /** Such as `route.planned`; a newer service may send types that you do not know: ignore them. */
  type: string;
  timestamp: string;
  /** The route, as `GET /v1/routes/{id}` shows it; empty in `webhook.test`. */
  data: Route;
  /** The driver's answer to a fuel stop, in `stop.going`, `stop.fueled` and `stop.refused`. */
  answer?: Record<string, unknown>;
  /** The stop whose free time has ended, in `stop.detained`. */
  detention?: Record<string, unknown>;
}

type HeaderFields = Headers | Record<string, string | string[] | undefined>;

/**
 * The event, when the request was signed with the secret, or with one of several while they are rotated.
 *
 * `body` is the request's body as it came: parsed and written again it has another signature. Throws InvalidWebhook,
 * and Misconfigured when the secret cannot be one.
 */
export async function verifyWebhook(
  body: string | Uint8Array,
  headers: HeaderFields,
  secret: string | readonly string[],
  options: { toleranceSeconds?: number } = {},
): Promise<WebhookEvent> {
  const [id, sentAt, signatures] = ["id", "timestamp", "signature"].map((name) => header(headers, `webhook-${name}`));
  if (!id || !sentAt || !signatures) {
    throw new InvalidWebhook("the headers webhook-id, webhook-timestamp and webhook-signature are needed");
  }
  checkTime(sentAt, options.toleranceSeconds ?? TOLERANCE_SECONDS);
  const content = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const signed = joined(new TextEncoder().encode(`${id}.${sentAt}.`), content);
  const keys = await Promise.all((typeof secret === "string" ? [secret] : secret).map(keyOf));
  if (!(await isSigned(signed, signatures, keys))) {
    throw new InvalidWebhook("no signature fits: it is another endpoint's secret, or the body is not as it was sent");
  }
  return eventOf(new TextDecoder().decode(content), id);
}

function header(headers: HeaderFields, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined;
  const found = Object.entries(headers).find(([other]) => other.toLowerCase() === name)?.[1];
  return Array.isArray(found) ? found[0] : found;
}

function checkTime(sentAt: string, toleranceSeconds: number): void {
  if (!/^\d+$/.test(sentAt)) throw new InvalidWebhook("webhook-timestamp is not a number of seconds");
  if (Math.abs(Date.now() / 1000 - Number(sentAt)) > toleranceSeconds) {
    throw new InvalidWebhook("the webhook is too old or from the future: is this machine's clock right?");
  }
}

async function keyOf(secret: string): Promise<CryptoKey> {
  const bytes = fromBase64(secret.trim().replace(/^whsec_/, ""));
  // an empty key would accept whatever anybody signs with it
  if (!bytes?.length) throw new Misconfigured("the secret of the webhooks is missing, or is not whsec_ and base64");
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
}

async function isSigned(signed: Uint8Array<ArrayBuffer>, signatures: string, keys: CryptoKey[]): Promise<boolean> {
  for (const one of signatures.split(" ")) {
    const given = one.startsWith("v1,") ? fromBase64(one.slice(3)) : undefined;
    if (given === undefined) continue;
    for (const key of keys) {
      if (await crypto.subtle.verify("HMAC", key, given, signed)) return true;
    }
  }
  return false;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(first.length + second.length);
  all.set(first);
  all.set(second, first.length);
  return all;
}

function eventOf(text: string, id: string): WebhookEvent {
  let event: unknown;
  try {
    event = JSON.parse(text);
  } catch {
    throw new InvalidWebhook("the body is no event: it is not JSON");
  }
  const { type } = (event ?? {}) as { type?: unknown };
  if (typeof type !== "string") throw new InvalidWebhook("the body is no event: it has no type");
  return { ...(event as WebhookEvent), id };
}
