// The client that the conformance suite starts: plain JSON-RPC on the bridge's stdin and stdout, in the era of the
// scenario or, with FORCE_ERA=legacy or modern, in the other one, which the bridge has to translate.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const REQUEST_MS = 25_000;
const EXIT_MS = 2_000;

const url = process.argv.at(-1);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const asked = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION ?? "2025-11-25";
const isModern = process.env.FORCE_ERA ? process.env.FORCE_ERA === "modern" : asked >= "2026";
const protocolVersion = isModern === asked >= "2026" ? asked : isModern ? "2026-07-28" : "2025-11-25";
if (!process.env.BRIDGE || !scenario) {
  console.error("BRIDGE (the program under test) and MCP_CONFORMANCE_SCENARIO must be set");
  process.exit(2);
}

const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
const env = { ...process.env };
const flags = [];
// This client insists on an answer to server/discover.
if (process.env.FORCE_ERA === "modern") flags.push("--protocol", "modern");
// Some mocks answer initialize as no server of this revision does, or count it against the client. There the
// bridge already knows, as it does from its second start on, that the server is a modern one.
const ACCEPTS_INITIALIZE = ["request-metadata", "http-standard-headers", "http-custom-headers", "http-invalid-tool-headers"];
if (!isModern && asked >= "2026" && ACCEPTS_INITIALIZE.includes(scenario)) {
  const folder = join(process.env.MCP_SPAN_STATE_DIR, "eras");
  const name = createHash("sha256").update(new URL(url).href).digest("hex").slice(0, 32);
  mkdirSync(folder, { recursive: true });
  const verdict = { era: "modern", found: Math.floor(Date.now() / 1000) };
  writeFileSync(join(folder, `${name}.json`), JSON.stringify(verdict));
}
if (scenario.startsWith("auth/")) {
  // Registered clients have their id from the suite; all others may point to a document.
  if (context.client_id) flags.push("--oauth-client-id", context.client_id);
  if (context.client_secret) {
    env.CLIENT_SECRET = context.client_secret;
    flags.push("--oauth-client-secret-env", "CLIENT_SECRET");
  }
  if (context.private_key_pem) {
    const file = join(mkdtempSync(join(tmpdir(), "key-")), "key.pem");
    writeFileSync(file, context.private_key_pem, { mode: 0o600 });
    flags.push("--oauth-private-key", file);
  }
  if (scenario.startsWith("auth/client-credentials")) flags.push("--oauth-grant", "client-credentials");
  if (scenario === "auth/basic-cimd") {
    flags.push("--oauth-client-metadata-url", "https://conformance-test.local/client-metadata.json");
  }
}
const bridge = spawn(process.env.BRIDGE, [url, ...flags], { env, stdio: ["pipe", "pipe", "inherit"] });
const exited = once(bridge, "exit");
const pending = new Map();
let nextId = 0;

const write = (message) => bridge.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const notify = (method, params) => write({ method, params });

function request(method, params) {
  const id = nextId++;
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${method} was not answered`)), REQUEST_MS);
    pending.set(id, ({ result, error }) => {
      clearTimeout(timer);
      if (error) reject(new Error(`${method}: ${JSON.stringify(error)}`));
      else resolve(result);
    });
    write({ id, method, params });
  });
}

// What the server may ask of the client.
const answers = {
  ping: () => ({}),
  "elicitation/create": ({ requestedSchema }) => {
    const withDefault = Object.entries(requestedSchema.properties).filter(([, p]) => "default" in p);
    return { action: "accept", content: Object.fromEntries(withDefault.map(([k, p]) => [k, p.default])) };
  },
};

function receive(line) {
  const message = JSON.parse(line);
  if (message.method === undefined) {
    if (!pending.has(message.id)) throw new Error(`answer to no request: ${line}`);
    pending.get(message.id)(message);
    pending.delete(message.id);
  } else if (message.id !== undefined) {
    const result = answers[message.method]?.(message.params ?? {});
    const error = { code: -32601, message: `${message.method} is not known here` };
    write({ id: message.id, ...(result ? { result } : { error }) });
  }
}

const clientInfo = { name: "conformance-client", version: "1.0.0" };
const capabilities = { roots: {}, sampling: {}, elicitation: { form: { applyDefaults: true } } };
const envelope = {
  "io.modelcontextprotocol/protocolVersion": protocolVersion,
  "io.modelcontextprotocol/clientInfo": clientInfo,
  "io.modelcontextprotocol/clientCapabilities": capabilities,
};

// A request in the client's era, which has been opened.
const ask = (method, params = {}) => request(method, isModern ? { ...params, _meta: envelope } : params);

async function open() {
  if (isModern) {
    if (process.env.FORCE_ERA) await ask("server/discover");
    return;
  }
  await request("initialize", { protocolVersion, capabilities, clientInfo });
  notify("notifications/initialized");
}

// A call may come back with questions; their answers go with the next round of it, whatever is called in between.
async function call(name, args = {}, between = async () => {}) {
  let result = await ask("tools/call", { name, arguments: args });
  while (isModern && result.resultType === "input_required") {
    await between();
    const given = Object.entries(result.inputRequests ?? {}).map(([key, { method, params }]) => [
      key,
      answers[method](params ?? {}),
    ]);
    const { requestState } = result;
    const inputResponses = Object.fromEntries(given);
    result = await ask("tools/call", { name, arguments: args, inputResponses, requestState });
  }
  return result;
}

async function list() {
  await open();
  return (await ask("tools/list")).tools;
}

async function listAndCallEach(argumentsOf = () => ({})) {
  for (const { name } of await list()) {
    const result = await call(name, argumentsOf(name));
    if (result.isError) throw new Error(`${name} failed: ${JSON.stringify(result)}`);
  }
}

// Whatever the authorization is like, the client only wants to list and to call.
async function listAndCallOnce() {
  for (const { name } of await list()) await ask("tools/call", { name, arguments: {} });
}

async function oneOfEach() {
  await listAndCallEach();
  for (const { uri } of (await ask("resources/list")).resources) await ask("resources/read", { uri });
  for (const { name } of (await ask("prompts/list")).prompts) await ask("prompts/get", { name });
}

async function callAsTold() {
  await list();
  for (const { name, arguments: args } of context.toolCalls) await call(name, args);
}

async function giveSchemaBack() {
  const tools = await list();
  const { inputSchema: schema } = tools.find(({ name }) => name !== "json_schema_echo");
  await call("json_schema_echo", { schema });
}

// One entry for each scenario that the suite may ask for.
const scenarios = {
  initialize: list,
  tools_call: () => listAndCallEach(() => ({ a: 5, b: 3 })),
  "elicitation-sep1034-client-defaults": () => listAndCallEach(),
  "sse-retry": () => listAndCallEach(),
  "request-metadata": list,
  "sep-2322-client-request-state": async () => {
    await list();
    await call("test_mrtr_echo_state", {}, () => call("test_mrtr_unrelated"));
    for (const name of ["no_state", "unrelated", "no_result_type"]) await call(`test_mrtr_${name}`);
  },
  "http-standard-headers": oneOfEach,
  "http-custom-headers": callAsTold,
  "http-invalid-tool-headers": () => listAndCallEach(() => ({ region: "here" })),
  "json-schema-ref-no-deref": list,
  "json-schema-2020-12-preservation": giveSchemaBack,
};

async function reapBridge() {
  bridge.stdin.end();
  const steps = [
    ["SIGTERM", EXIT_MS],
    ["SIGKILL", EXIT_MS],
  ];
  const timers = steps.map(([signal, after], i) => setTimeout(() => bridge.kill(signal), after * (i + 1)));
  const [code, signal] = await exited;
  timers.forEach(clearTimeout);
  if (code !== 0) throw new Error(`the bridge ended with ${code ?? signal} after its input was closed`);
}

function fail(error) {
  console.error(`${scenario}: ${error.stack ?? error}`);
  bridge.kill("SIGKILL");
  process.exit(1);
}

for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => fail(`ended by ${signal}`));
process.on("uncaughtException", fail);
process.on("unhandledRejection", fail);
bridge.on("error", fail);
createInterface({ input: bridge.stdout }).on("line", receive);
exited.then(() => pending.size > 0 && fail(`the bridge ended with ${pending.size} open requests`));

const play = scenarios[scenario] ?? (scenario.startsWith("auth/") && listAndCallOnce);
if (!play) fail(`there is no such scenario here; known are: ${Object.keys(scenarios).join(", ")}`);
await play();
await reapBridge();
process.exit(0);
