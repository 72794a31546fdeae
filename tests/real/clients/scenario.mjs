// What the client scripts share: naming steps, making results comparable, waiting, and ending in time.
import { createHash } from "node:crypto";

const LIFETIME_MS = 60_000;
const WAIT_MS = 10_000;

// Through the bridge when BRIDGE names its program, else directly.
export const bridge = process.env.BRIDGE || undefined;

export function usage(names) {
  const values = process.argv.slice(2);
  if (values.length !== names.length) {
    console.error(`usage: [BRIDGE=program] node ${process.argv[1]} ${names.map((n) => `<${n}>`).join(" ")}`);
    process.exit(2);
  }
  return values;
}

// Whether the server has the transport of 2024, which a direct client has to know.
export function isSse(url) {
  return new URL(url).pathname === "/sse";
}

// Replaces what differs from run to run by nature: ids, clock times, durations.
export function normalise(value) {
  if (typeof value === "string") return normaliseText(value);
  if (Array.isArray(value)) return value.map(normalise);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, entry]) => entry !== undefined)
      .map(([key, entry]) => [key, key === "blob" ? normaliseBlob(entry) : normalise(entry)]),
  );
}

function normaliseText(text) {
  return text
    .replace(/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi, "<uuid>")
    .replace(/\b[0-9a-f]{32}\b/gi, "<task>")
    .replace(/\b\d{4}-\d{2}-\d{2}T[\d:.]+Z?/g, "<time>")
    .replace(/\b\d{1,2}:\d{2}:\d{2}(\s?[AP]M)?/g, "<time>");
}

// The demo server hides a clock time inside of base64.
function normaliseBlob(blob) {
  const decoded = Buffer.from(String(blob), "base64").toString("utf8");
  const masked = normaliseText(decoded);
  return masked === decoded ? blob : { base64Of: masked };
}

export function digest(text) {
  return { length: text.length, sha256: createHash("sha256").update(text).digest("hex") };
}

// The shape of a JSON-RPC error as a user of an SDK sees it.
export function errorOf(error) {
  return { error: { code: error.code, message: error.message, data: error.data } };
}

export async function outcome(promise) {
  try {
    return await promise;
  } catch (error) {
    return errorOf(error);
  }
}

// A list to which messages come, and in which one can wait for a certain one.
export class Inbox {
  #items = [];
  #waiting = new Set();

  push(item) {
    this.#items.push(item);
    for (const check of [...this.#waiting]) check();
  }

  // Takes the first item that fits, now or later.
  take(what, fits) {
    return new Promise((resolve, reject) => {
      const check = () => {
        const index = this.#items.findIndex(fits);
        if (index < 0) return;
        clearTimeout(timer);
        this.#waiting.delete(check);
        resolve(this.#items.splice(index, 1)[0]);
      };
      const timer = setTimeout(() => {
        this.#waiting.delete(check);
        const seen = JSON.stringify(this.#items.map((item) => item.method ?? item));
        reject(new Error(`${what} did not come within ${WAIT_MS} ms; waiting are: ${seen}`));
      }, WAIT_MS);
      this.#waiting.add(check);
      check();
    });
  }

  takeNotification(method, fits = () => true) {
    return this.take(method, (item) => item.method === method && fits(item.params));
  }
}

// The progress of a call, noted where the messages arrive: the SDKs lose a notification of which the
// answer comes in the same read. That the client was told of the first one shows that the token fits.
export async function progressOf(client, call) {
  const { transport } = client;
  const receive = transport.onmessage;
  const arrived = [];
  const told = [];
  transport.onmessage = (message, extra) => {
    if (message.method === "notifications/progress") arrived.push(message.params);
    receive(message, extra);
  };
  const result = await call({ onprogress: (update) => told.push(update) });
  transport.onmessage = receive;
  return { progress: arrived.map(({ progressToken: _, ...update }) => update), first: told[0], result };
}

// Runs `body(step)`, prints the steps as JSON, and ends the process whatever happens.
export async function run(body) {
  const steps = [];
  let current = "start";
  const fail = (reason) => {
    console.error(`step "${current}" failed: ${reason?.stack ?? reason}`);
    console.error(`steps that were done: ${steps.map((s) => s.step).join(", ")}`);
    process.exit(1);
  };
  setTimeout(() => fail(`the script did not end within ${LIFETIME_MS} ms`), LIFETIME_MS).unref();
  process.on("unhandledRejection", fail);
  const step = async (name, action) => {
    current = name;
    const result = await action();
    steps.push({ step: name, result: normalise(result) });
    return result;
  };
  try {
    await body(step);
  } catch (error) {
    fail(error);
  }
  process.stdout.write(`${JSON.stringify(steps, null, 2)}\n`, () => process.exit(0));
}

// Closing must be quick: an SDK that waits longer than this is about to send SIGTERM.
export async function closePromptly(client) {
  const started = performance.now();
  await client.close();
  return { withinTwoSeconds: performance.now() - started < 1_900 };
}
