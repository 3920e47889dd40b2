/** A client of the Fuelroute API: pushes routes, reads them back, waits for their fuel plans, verifies webhooks. */

export * from "./client.ts";
export * from "./errors.ts";
export type * from "./models.ts";
export * from "./webhooks.ts";
