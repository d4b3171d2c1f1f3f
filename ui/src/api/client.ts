import type { Problem as Told } from "./types";

/** A refusal of the API, or one that this page says itself because no answer of the API came. */
type Problem = Omit<Told, "code"> & { code: string };

/** A refusal or failure in the API's own words; `problem.detail` and `problem.remedy` are fit to show. */
export class ApiProblem extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }

  /** True when the same request may well be answered in a moment: nothing answered, or the server cannot now. */
  get passing(): boolean {
    return this.problem.status === 0 || this.problem.status >= 500;
  }
}

let csrf = "";

/** Every change carries this token; it comes with the session. */
export function setCsrf(token: string): void {
  csrf = token;
}

interface Options {
  method?: string;
  body?: unknown;
  /** Body that is sent as it is, with its media type. */
  raw?: { type: string; text: string | Blob };
  headers?: Record<string, string>;
}

/** Calls the API and gives the decoded answer; throws ApiProblem for every refusal, also when nothing answers. */
export async function call<T>(path: string, options: Options = {}): Promise<{ status: number; data: T }> {
  const answer = await send(path, options);
  const text = await answer.text();
  return { status: answer.status, data: (text ? JSON.parse(text) : undefined) as T };
}

/** Like `call`, for answers that are files. */
export async function download(path: string, options: Options = {}): Promise<string> {
  return (await send(path, options)).text();
}

export async function get<T>(path: string): Promise<T> {
  return (await call<T>(path)).data;
}

async function send(path: string, options: Options): Promise<Response> {
  const headers: Record<string, string> = { ...options.headers };
  const method = options.method ?? "GET";
  if (method !== "GET") headers["X-CSRF-Token"] = csrf;
  let body: string | Blob | undefined;
  if (options.raw) {
    headers["Content-Type"] = options.raw.type;
    body = options.raw.text;
  } else if (options.body !== undefined) {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(options.body);
  }
  let answer: Response;
  try {
    answer = await fetch(`/api/v1${path}`, { method, headers, body, credentials: "same-origin" });
  } catch {
    throw new ApiProblem({
      title: "Trilithon does not answer",
      status: 0,
      code: "unreachable",
      detail: "The platform's API does not answer. Jobs go on by themselves; nothing you entered is lost.",
      remedy: "Check that `trilithon up` runs, then try again.",
      type: "about:blank",
      violations: [],
      raw: "",
      reference: null,
      missing: null,
    });
  }
  if (!answer.ok) throw new ApiProblem(await readProblem(answer));
  return answer;
}

async function readProblem(answer: Response): Promise<Problem> {
  try {
    const problem = (await answer.json()) as Problem;
    if (problem.detail) return problem;
  } catch {
    // not ours: a proxy's page, for example
  }
  return {
    title: answer.statusText,
    status: answer.status,
    code: "foreign-answer",
    detail: `Something between this page and Trilithon answered ${answer.status} ${answer.statusText}.`,
    remedy: "Reload the page; if it stays, look at the proxy in front of Trilithon.",
    type: "about:blank",
    violations: [],
    raw: "",
    reference: null,
    missing: null,
  };
}
