/** The client against a running service, which tests/deploy/clients/test_typescript_client.py starts. */

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { inspect } from "node:util";

import {
  ApiError,
  Fuelroute,
  InvalidWebhook,
  Misconfigured,
  RouteEnded,
  ServiceUnreachable,
  UnexpectedAnswer,
  WaitTimeout,
  verifyWebhook,
  type Change,
  type Route,
  type RouteInput,
} from "../src/index.ts";

const fuelroute = new Fuelroute();
/** So late that no busy machine fails a test. */
const PATIENCE_SECONDS = 180;
let loads = 0;

function load(changes: Partial<RouteInput> = {}): RouteInput {
  return {
    externalId: `TS-${++loads}`,
    vehicle: { unitNumber: "101" },
    driver: { name: "Ann Lee" },
    scheduledStart: new Date(Date.now() + 3_600_000).toISOString(),
    stops: [
      { name: "Joliet terminal", latitude: 41.462, longitude: -88.125 },
      { name: "Port Newark", latitude: 40.695, longitude: -74.155 },
    ],
    ...changes,
  };
}

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
}

/** A server that answers with these, in turn, the last one again and again; and what it was asked. */
async function answering(
  replies: [number, unknown, Record<string, string>?][],
  use: (client: Fuelroute, asked: IncomingMessage[]) => Promise<void>,
): Promise<void> {
  const asked: IncomingMessage[] = [];
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    asked.push(request);
    const [status, body, headers] = (replies.length > 1 ? replies.shift() : replies[0])!;
    response.writeHead(status, headers).end(typeof body === "string" ? body : JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  try {
    await use(new Fuelroute({ baseUrl: `http://127.0.0.1:${port}/`, apiKey: "key" }), asked);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test("a route is pushed, found, read and canceled", async () => {
  const pushed = await fuelroute.pushRoute(load());
  assert.equal(pushed.outcome, "created");
  assert.equal((await fuelroute.pushRoute(load({ externalId: pushed.route.externalId }))).outcome, "updated");
  assert.equal((await fuelroute.findRoute(pushed.route.externalId))?.id, pushed.route.id);
  assert.equal((await fuelroute.waitUntil(pushed.route.id, "draft")).status, "draft");
  await fuelroute.cancelRoute(pushed.route.id);
  assert.equal((await fuelroute.getRoute(pushed.route.id)).status, "canceled");
  await assert.rejects(fuelroute.waitUntil(pushed.route.id, "active"), RouteEnded);
  assert.equal(await fuelroute.findRoute("no such load"), undefined);
  assert.equal(await fuelroute.findRoute(undefined as unknown as string), undefined); // and no other load
});

test("a load is previewed", async () => {
  const preview = await fuelroute.previewLoad({
    stops: [{ town: "Joliet, IL" }, { town: "Newark, NJ" }],
    vehicle: { fuelPercent: 95 },
  });
  assert.ok(preview.distanceMiles > 700);
  assert.ok(preview.assumed.some((one) => one.field === "vehicle.mpg"));
  await assert.rejects(fuelroute.previewLoad({ routeId: "rte_none" }), ApiError);
});

test("a route of an unknown truck is held", async () => {
  const { route, outcome } = await fuelroute.pushRoute(load({ vehicle: { unitNumber: "nobody's" } }));
  assert.equal(outcome, "held");
  assert.equal(route.pending?.reason, "vehicle_unmapped");
});

test("key, vehicles, drivers and routes are read, page by page", async () => {
  assert.equal((await fuelroute.me()).rateLimit.limit, 600);
  assert.deepEqual((await all(fuelroute.vehicles())).map((one) => one.unitNumber), ["101", "102"]);
  assert.deepEqual((await all(fuelroute.drivers({ name: "lee" }))).map((one) => one.name), ["Ann Lee"]);
  const unitNumber = "102";
  const made = [];
  for (let number = 0; number < 102; number++) made.push(fuelroute.pushRoute(load({ vehicle: { unitNumber } })));
  const ids = (await Promise.all(made)).map((one) => one.route.id);
  const [{ id: vehicleId } = { id: "" }] = await all(fuelroute.vehicles({ unitNumber }));
  const listed = await all(fuelroute.routes({ status: "draft", vehicleId, from: new Date() }));
  assert.deepEqual(listed.map((one) => one.id).sort(), ids.sort());
});

/** The changes of all routes but the driven one, which changes at any time. They come as soon as no transaction that
 * began before them still runs, also one of another test on the same server. */
async function changesUntil(
  from: Parameters<typeof fuelroute.changes>[0],
  isWhole: (found: Change[]) => boolean,
): Promise<Change[]> {
  const deadline = Date.now() + PATIENCE_SECONDS * 1000;
  while (Date.now() < deadline) {
    const found = (await all(fuelroute.changes(from))).filter((one) => one.route.id !== process.env["ROUTE_ID"]);
    if (isWhole(found)) return found;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("waited in vain");
}

test("changes are followed from page to page", async () => {
  const since = new Date(Date.now() - 60_000);
  const { route } = await fuelroute.pushRoute(load());
  const changes = await changesUntil({ since }, (found) => found.at(-1)?.route.id === route.id);
  assert.ok(changes.length > 100);
  await fuelroute.cancelRoute(route.id);
  const cursor = changes.at(-1)?.cursor ?? "";
  const [last, ...none] = await changesUntil({ cursor }, (found) => found.length > 0);
  assert.deepEqual([last?.route.id, last?.route.status, none], [route.id, "canceled", []]);
});

test("a driven route becomes active, with its fuel plan", async () => {
  const states: string[] = [];
  const route = await fuelroute.waitUntil(process.env["ROUTE_ID"] ?? "", "active", {
    timeoutSeconds: PATIENCE_SECONDS,
    onChange: (one) => states.push(one.status),
  });
  assert.equal(states.at(-1), route.status);
  assert.ok((route.fuelPlan?.stops[0]?.gallonsToFill ?? 0) > 0);
});

test("errors say what is wrong", async () => {
  const [stop] = load().stops;
  await assert.rejects(fuelroute.pushRoute(load({ stops: [stop!, { ...stop!, latitude: 91 }] })), (error) => {
    assert.ok(error instanceof ApiError && error.name === "ApiError");
    assert.deepEqual([error.status, error.code], [400, "validation_error"]);
    assert.deepEqual(error.errors.map((fault) => fault.field), ["stops[1].latitude"]);
    assert.ok(error.requestId);
    return true;
  });
  await assert.rejects(fuelroute.getRoute("../me"), { status: 404, code: "not_found" });
  await assert.rejects(new Fuelroute({ apiKey: "svc_live_nobody" }).me(), { status: 401, code: "unauthorized" });
});

test("429 and 5xx are retried, other errors are not", async () => {
  const refused: [number, unknown][] = [[404, { code: "not_found", detail: "none" }]];
  await answering(
    [[429, { code: "rate_limited" }, { "Retry-After": "0" }], [503, "<html>"], ...refused],
    async (client, asked) => {
      await assert.rejects(client.pushRoute(load()), { code: "not_found", detail: "none" });
      assert.equal(asked.length, 3);
    },
  );
  await answering([[429, { code: "rate_limited" }, { "Retry-After": "600" }]], async (client, asked) => {
    await assert.rejects(client.me(), { code: "rate_limited", retryAfterSeconds: 600 });
    assert.equal(asked.length, 1);
  });
});

test("a service that is away is told in time", async () => {
  const away = new Fuelroute({ baseUrl: "http://127.0.0.1:9", timeoutSeconds: 0.4 });
  await assert.rejects(away.me(), ServiceUnreachable);
});

test("waiting polls with the etag, and ends in time", async () => {
  const draft: [number, unknown, Record<string, string>] = [200, { id: "rte_1", status: "draft" }, { ETag: '"1"' }];
  await answering([draft, [304, ""]], async (client, asked) => {
    await assert.rejects(client.waitUntil("rte_1", "active", { timeoutSeconds: 1.2 }), WaitTimeout);
    const [first, ...later] = asked.map((request) => request.headers["if-none-match"]);
    assert.equal(first, undefined);
    assert.deepEqual(later, later.map(() => '"1"')); // how many there are in that time, the machine decides
    assert.notEqual(later.length, 0);
  });
});

test("a newer service does not break the client", async () => {
  await answering([[200, { id: "rte_1", status: "paused", mood: "good" }]], async (client) => {
    assert.equal((await client.getRoute("rte_1")).status as string, "paused");
  });
});

test("what is not the API's is told so", async () => {
  for (const reply of [[200, "<html>"], [200, "1"], [301, "", { Location: "https://x" }]] as const) {
    await answering([[...reply] as [number, unknown, Record<string, string>?]], async (client) => {
      await assert.rejects(client.me(), UnexpectedAnswer);
    });
  }
  await answering([[200, { ok: true }]], async (client) => {
    await assert.rejects(client.findRoute("x"), UnexpectedAnswer);
    await assert.rejects(all(client.vehicles()), UnexpectedAnswer);
    await assert.rejects(all(client.changes({ cursor: "x" })), UnexpectedAnswer);
  });
});

test("a refusal of a gateway is an error of the client, whatever it holds", async () => {
  for (const errors of [{ stops: ["is short"] }, "none", [null], ["none"]]) {
    await answering([[403, { code: "denied", errors }]], async (client) => {
      await assert.rejects(client.me(), (error) => error instanceof ApiError && error.code === "http_403");
    });
  }
  await answering([[403, { code: "denied" }]], async (client) => {
    await assert.rejects(client.me(), (error) => error instanceof ApiError && error.code === "denied");
  });
});

test("what cannot work is refused at once, and the key is shown nowhere", () => {
  assert.throws(() => new Fuelroute({ baseUrl: "localhost:8080" }), Misconfigured);
  assert.throws(() => new Fuelroute({ baseUrl: "" }), Misconfigured);
  assert.throws(() => new Fuelroute({ apiKey: "" }), Misconfigured);
  assert.throws(() => new Fuelroute({ apiKey: "svc_live_x\nEvil: 1" }), (error) => !String(error).includes("Evil"));
  assert.ok(!inspect(new Fuelroute({ apiKey: "svc_live_secret" }), { depth: 9, showHidden: true }).includes("secret"));
});

test("webhooks are verified", async () => {
  const secret = `whsec_${Buffer.from("a secret of 24 bytes or so").toString("base64")}`;
  const data = { id: "rte_1" } as Route;
  const body = JSON.stringify({ type: "route.planned", timestamp: "2026-12-01T08:00:00Z", data });
  const signed = (at: number = Date.now() / 1000) => {
    const time = String(Math.floor(at));
    const key = Buffer.from(secret.slice(6), "base64");
    const signature = createHmac("sha256", key).update(`msg_1.${time}.${body}`).digest("base64");
    return { "Webhook-Id": "msg_1", "webhook-timestamp": time, "webhook-signature": `v2,x v1,!! v1,${signature}` };
  };
  const event = await verifyWebhook(body, signed(), [`whsec_${btoa("another")}`, secret]);
  assert.deepEqual([event.id, event.type, event.data.id], ["msg_1", "route.planned", "rte_1"]);
  assert.equal((await verifyWebhook(Buffer.from(body), new Headers(signed()), ` ${secret}\n`)).id, "msg_1");
  await assert.rejects(verifyWebhook(`${body} `, signed(), secret), InvalidWebhook);
  await assert.rejects(verifyWebhook(body, {}, secret), InvalidWebhook);
  await assert.rejects(verifyWebhook(body, signed(Date.now() / 1000 - 400), secret), InvalidWebhook);
  for (const none of ["", "whsec_", []]) {
    await assert.rejects(verifyWebhook(body, signed(), none), none === "" || none === "whsec_" ? Misconfigured : InvalidWebhook);
  }
});
