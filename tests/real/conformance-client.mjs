// The client that the conformance suite starts: plain JSON-RPC on the bridge's stdin and stdout.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const REQUEST_MS = 25_000;
const EXIT_MS = 2_000;

const url = process.argv.at(-1);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const protocolVersion = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION ?? "2025-11-25";
if (!process.env.BRIDGE || !scenario) {
  console.error("BRIDGE (the program under test) and MCP_CONFORMANCE_SCENARIO must be set");
  process.exit(2);
}

const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
const env = { ...process.env };
const flags = [];
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

async function initialize() {
  await request("initialize", {
    protocolVersion,
    capabilities: { elicitation: { form: { applyDefaults: true } } },
    clientInfo: { name: "conformance-client", version: "1.0.0" },
  });
  notify("notifications/initialized");
}

const isModern = protocolVersion >= "2026";
const envelope = {
  "io.modelcontextprotocol/protocolVersion": protocolVersion,
  "io.modelcontextprotocol/clientInfo": { name: "conformance-client", version: "1.0.0" },
  "io.modelcontextprotocol/clientCapabilities": {},
};
const params = (given = {}) => (isModern ? { ...given, _meta: envelope } : given);
const call = (name, given = {}) => request("tools/call", params({ name, arguments: given }));

async function listTools() {
  if (!isModern) await initialize();
  return (await request("tools/list", params())).tools;
}

async function listAndCallEach(argumentsOf = () => ({})) {
  for (const { name } of await listTools()) {
    const result = await call(name, argumentsOf(name));
    if (result.isError) throw new Error(`${name} failed: ${JSON.stringify(result)}`);
  }
}

// Calls until the answer is no question any more; each retry has an id of its own.
async function callAndAnswer(name, between = async () => {}) {
  let result = await call(name);
  while (result.resultType === "input_required") {
    await between();
    const asked = Object.entries(result.inputRequests ?? {});
    const inputResponses = Object.fromEntries(
      asked.map(([key]) => [key, { action: "accept", content: { confirmed: true } }]),
    );
    const state = "requestState" in result ? { requestState: result.requestState } : {};
    result = await request("tools/call", params({ name, arguments: {}, inputResponses, ...state }));
  }
}

// Whatever the authorization is like, the client only wants to list and to call.
async function listAndCallOnce() {
  for (const { name } of await listTools()) await call(name);
}

// One entry for each scenario that the suite may ask for.
const scenarios = {
  initialize: async () => {
    await initialize();
    await request("tools/list", {});
  },
  tools_call: () => listAndCallEach(() => ({ a: 5, b: 3 })),
  "elicitation-sep1034-client-defaults": () => listAndCallEach(),
  "sse-retry": () => listAndCallEach(),
  "request-metadata": async () => {
    await request("server/discover", params());
    await listTools();
  },
  "http-standard-headers": async () => {
    await listAndCallEach();
    const { resources } = await request("resources/list", params());
    for (const { uri } of resources) await request("resources/read", params({ uri }));
    const { prompts } = await request("prompts/list", params());
    for (const { name } of prompts) await request("prompts/get", params({ name }));
  },
  "http-custom-headers": async () => {
    await listTools();
    for (const { name, arguments: given } of context.toolCalls) await call(name, given);
  },
  "http-invalid-tool-headers": () => listAndCallEach(() => ({ region: "us-west1" })),
  "json-schema-ref-no-deref": () => listTools(),
  "json-schema-2020-12-preservation": async () => {
    const tool = (await listTools()).find(({ name }) => name === "json_schema_2020_12_tool");
    await call("json_schema_echo", { schema: tool.inputSchema });
  },
  "sep-2322-client-request-state": async () => {
    await listTools();
    await callAndAnswer("test_mrtr_echo_state", () => call("test_mrtr_unrelated"));
    for (const name of ["test_mrtr_no_state", "test_mrtr_no_result_type"]) await callAndAnswer(name);
  },
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
