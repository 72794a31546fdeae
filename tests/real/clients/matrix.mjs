// The checks of the matrix of peers, for both TypeScript SDKs: each step ends in time, in a value or an error.
import { progressOf } from "./scenario.mjs";

const WAIT_MS = 10_000;
const BETWEEN_LOOKS_MS = 50;

export const textOf = (result) =>
  result.content.filter((block) => block.type === "text").map((block) => block.text).join("\n");

function inTime(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("it did not end in time")), WAIT_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function outcomeOf(action) {
  try {
    return await inTime(action());
  } catch (error) {
    return { error: String(error.message ?? error) };
  }
}

// A client has: sdk, version(), listTools(), call({name, arguments}, options), listen() before a change,
// changed() after it, close().
const checks = {
  tools: (client) => client.listTools(),
  call: async (client, { echo }) => textOf(await client.call(echo)),
  elicitation: async (client, { ask }) => textOf(await client.call(ask)),
  progress: async (client, { slow }) => {
    const { progress, result } = await progressOf(client.sdk, (options) => client.call(slow, options));
    return { steps: progress.map((update) => update.progress), text: textOf(result) };
  },
  list_changed: async (client, { change }) => {
    await client.listen();
    await client.call(change);
    return client.changed();
  },
  cancellation: async (client, { long, cancelled, echo }) => {
    const stop = new AbortController();
    const call = client.call(long, { signal: stop.signal, onprogress: () => stop.abort("enough") });
    const ended = await call.then(
      () => "answered",
      () => "cancelled",
    );
    if (ended !== "cancelled") throw new Error("the call was answered although it was cancelled");
    while (cancelled && textOf(await client.call(cancelled)) !== "true") {
      await new Promise((resolve) => setTimeout(resolve, BETWEEN_LOOKS_MS));
    }
    return textOf(await client.call(echo));
  },
};

async function visit(connect, plan, job, bridge, wanted) {
  let client;
  const connected = await outcomeOf(async () => {
    client = await connect(job.url, bridge && { ...bridge, args: [job.url, ...plan.flags] }, plan.mode, job.sse);
  });
  if (connected?.error) return connected;
  const outcome = { version: client.version() };
  for (const name of wanted) outcome[name] = await outcomeOf(() => checks[name](client, job.calls));
  await outcomeOf(() => client.close());
  return outcome;
}

// A promise that can be settled from outside, for a notification that comes once.
export function signal() {
  const { promise, resolve } = Promise.withResolvers();
  return { come: promise, tell: () => resolve(true) };
}

// Goes through the plan that stands in the arguments, and prints a line of JSON for each server.
export async function runPlan(connect) {
  const plan = JSON.parse(process.argv[2]);
  const bridge = { command: plan.bridge, env: { MCP_SPAN_STATE_DIR: plan.state } };
  for (const job of plan.jobs) {
    const direct = job.direct ? await visit(connect, plan, job, undefined, ["tools"]) : null;
    const bridged = await visit(connect, plan, job, bridge, job.checks);
    console.log(JSON.stringify({ server: job.server, direct, bridged }));
  }
  process.exit(0);
}
