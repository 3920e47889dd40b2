/** Every error that the client throws. All are FuelrouteError; the API key is in none of them. */

import type { FieldFault, Route } from "./models.ts";

export class FuelrouteError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No address, no key or no secret, or one that cannot be right. */
export class Misconfigured extends FuelrouteError {}

/** The service refused the request, or failed. Branch on `code` and `status`; `detail` is for people. */
export class ApiError extends FuelrouteError {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly errors: FieldFault[];
  readonly requestId: string | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(
    status: number,
    problem: { code: string; detail?: string | undefined; errors?: FieldFault[] | undefined },
    headers: Headers,
  ) {
    const errors = problem.errors ?? [];
    const faults = errors.map((fault) => `; ${fault.field || "body"}: ${fault.message}`).join("");
    super(`${status} ${problem.code}: ${problem.detail ?? ""}${faults}`);
    this.status = status;
    this.code = problem.code;
    this.detail = problem.detail ?? "";
    this.errors = errors;
    this.requestId = headers.get("X-Request-Id") ?? undefined;
    this.retryAfterSeconds = retryAfterSeconds(headers);
  }
}

export function retryAfterSeconds(headers: Headers): number | undefined {
  const text = headers.get("Retry-After") ?? "";
  return /^\d+$/.test(text) ? Number(text) : undefined;
}

/** No answer: the service could not be reached, or did not answer in time. `cause` is the error of fetch. */
export class ServiceUnreachable extends FuelrouteError {}

/** An answer that is not the API's. The address may be wrong, or a proxy answered. */
export class UnexpectedAnswer extends FuelrouteError {}

/** The route ended in another status than the one that was waited for. */
export class RouteEnded extends FuelrouteError {
  readonly route: Route;

  constructor(route: Route, wanted: string) {
    super(`route ${route.id} is ${route.status}, and will not become ${wanted}`);
    this.route = route;
  }
}

/** The route did not reach the status in time. `route` is its last known state. */
export class WaitTimeout extends FuelrouteError {
  readonly route: Route;

  constructor(route: Route, wanted: string, seconds: number) {
    super(`route ${route.id} is ${route.status} and not ${wanted} after ${seconds} s`);
    this.route = route;
  }
}

/** The request was not signed with the secret, is too old, or holds no event. Answer it with 400. */
export class InvalidWebhook extends FuelrouteError {}
