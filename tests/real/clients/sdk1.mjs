// The TypeScript SDK 1.x as client of the everything server, directly or through the bridge.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks";
import {
  CallToolResultSchema,
  CreateMessageRequestSchema,
  CreateTaskResultSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  ResultSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { bridge, closePromptly, digest, Inbox, isSse, outcome, progressOf, run, usage } from "./scenario.mjs";

const [url] = usage(["url"]);
const notifications = new Inbox();
const requests = new Inbox();
const roots = [{ uri: "file:///home/ada/first", name: "First" }];
const elicitAnswers = [];

const client = new Client(
  { name: "sdk1", version: "1.0.0", title: "Scenario client" },
  {
    capabilities: {
      roots: { listChanged: true },
      sampling: {},
      elicitation: { form: {}, url: {} },
      tasks: {
        requests: { sampling: { createMessage: {} }, elicitation: { create: {} } },
        list: {},
        cancel: {},
      },
    },
    taskStore: new InMemoryTaskStore(),
  },
);

// Answers at once, or through a task when the server asks for one.
async function answer(request, extra, result) {
  requests.push({ method: request.method, params: request.params });
  if (!request.params?.task) return result;
  const task = await extra.taskStore.createTask({ ttl: extra.taskRequestedTtl, pollInterval: 100 });
  await extra.taskStore.storeTaskResult(task.taskId, "completed", result);
  return { task };
}

client.fallbackNotificationHandler = async (notification) => notifications.push(notification);
client.setRequestHandler(ListRootsRequestSchema, (request, extra) => answer(request, extra, { roots }));
client.setRequestHandler(CreateMessageRequestSchema, (request, extra) =>
  answer(request, extra, {
    role: "assistant",
    model: "fixed-model",
    stopReason: "endTurn",
    content: { type: "text", text: "a fixed answer" },
  }),
);
client.setRequestHandler(ElicitRequestSchema, (request, extra) =>
  answer(request, extra, elicitAnswers.shift() ?? { action: "cancel" }),
);

// SDK 1.32 resumes a stream that ended with a JSON-RPC error, although that is an answer, and the
// server then repeats the messages of all streams. So the direct run does without resuming.
const NO_RECONNECTION = {
  initialReconnectionDelay: 1_000,
  maxReconnectionDelay: 1_000,
  reconnectionDelayGrowFactor: 1,
  maxRetries: 0,
};

function directTransport() {
  return isSse(url)
    ? new SSEClientTransport(new URL(url))
    : new StreamableHTTPClientTransport(new URL(url), { reconnectionOptions: NO_RECONNECTION });
}

function connectTransport(versions) {
  const transport = bridge
    ? new StdioClientTransport({ command: bridge, args: [url] })
    : directTransport();
  const inner = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (version) => {
    versions.push(version);
    inner?.(version);
  };
  return transport;
}

const call = (name, args = {}, options) =>
  client.callTool({ name, arguments: args }, undefined, options);
const asked = (method) => requests.take(method, (request) => request.method === method);
const logged = (start) =>
  notifications.takeNotification("notifications/message", ({ data }) => String(data).startsWith(start));

async function handshake(step) {
  await step("initialize", async () => {
    const versions = [];
    await client.connect(connectTransport(versions));
    return {
      versions,
      serverInfo: client.getServerVersion(),
      capabilities: client.getServerCapabilities(),
      instructions: client.getInstructions(),
    };
  });
  // The server asks on its standalone stream, a moment after it was initialized.
  await step("roots/list asked by the server", async () => [
    await asked("roots/list"),
    await logged("Roots updated: 1"),
  ]);
  await step("ping", () => client.ping());
}

async function tools(step) {
  await step("tools/list", () => client.listTools());
  await step("echo", () => call("echo", { message: 'tab\t "quotes" \\ \n ünïcödé 🦀 \u2028 end' }));
  await step("echo of half a megabyte", async () => {
    const result = await call("echo", { message: "0123456789abcdef".repeat(32 * 1024) });
    return digest(result.content[0].text);
  });
  await step("get-sum", () => call("get-sum", { a: 0.1, b: 1e15 }));
  await step("get-tiny-image", () => call("get-tiny-image"));
  await step("get-structured-content", () => call("get-structured-content", { location: "Chicago" }));
  await step("get-annotated-message", () =>
    call("get-annotated-message", { messageType: "error", includeImage: true }),
  );
  await step("get-resource-links", () => call("get-resource-links", { count: 4 }));
  await step("get-resource-reference", () =>
    call("get-resource-reference", { resourceType: "Blob", resourceId: 7 }),
  );
  await step("get-roots-list", () => call("get-roots-list"));
  await step("roots changed", async () => {
    roots.push({ uri: "file:///home/ada/second", name: "Second" });
    await client.sendRootsListChanged();
    return [await asked("roots/list"), await logged("Roots updated: 2"), await call("get-roots-list")];
  });
}

async function longCalls(step) {
  await step("progress", () =>
    progressOf(client, (options) =>
      call("trigger-long-running-operation", { duration: 0.5, steps: 5 }, options),
    ),
  );
  await step("calls side by side", async () => {
    const started = performance.now();
    const results = await Promise.all(
      [1, 2, 3, 4, 5].map((steps) => call("trigger-long-running-operation", { duration: 0.6, steps })),
    );
    return { results, overlapped: performance.now() - started < 2_400 };
  });
  await step("cancelled call", () => {
    const stop = new AbortController();
    return outcome(
      call("trigger-long-running-operation", { duration: 2, steps: 10 }, {
        signal: stop.signal,
        onprogress: () => stop.abort("enough"),
      }),
    );
  });
  await step("call after the cancelled one", () => call("echo", { message: "still here" }));
}

async function errors(step) {
  await step("unknown tool", () => outcome(call("no-such-tool")));
  await step("wrong arguments", () => outcome(call("get-sum", { a: "one" })));
  await step("unknown method", () =>
    outcome(client.request({ method: "no/such/method", params: { x: 1 } }, ResultSchema)),
  );
  await step("unknown resource", () => outcome(client.readResource({ uri: "demo://nowhere" })));
  await step("prompt without its argument", () => outcome(client.getPrompt({ name: "args-prompt" })));
}

async function serverRequests(step) {
  await step("sampling", async () => [
    await call("trigger-sampling-request", { prompt: "Say hello", maxTokens: 42 }),
    await asked("sampling/createMessage"),
  ]);
  await step("elicitation accepted", async () => {
    elicitAnswers.push({ action: "accept", content: { name: "Ada", integer: 7, number: 2.5 } });
    return [await call("trigger-elicitation-request"), await asked("elicitation/create")];
  });
  await step("elicitation declined", async () => {
    elicitAnswers.push({ action: "decline" });
    return [await call("trigger-elicitation-request"), await asked("elicitation/create")];
  });
  const link = { url: "https://example.com/confirm", elicitationId: "fixed-id" };
  await step("elicitation by url", async () => {
    elicitAnswers.push({ action: "accept" });
    return [await call("trigger-url-elicitation", link), await asked("elicitation/create")];
  });
  await step("elicitation by url, asked for with an error", () =>
    outcome(call("trigger-url-elicitation", { ...link, errorPath: true })),
  );
}

async function tasks(step) {
  await step("sampling as a task of the client", async () => [
    await call("trigger-sampling-request-async", { prompt: "Say hello", maxTokens: 42 }),
    await asked("sampling/createMessage"),
  ]);
  await step("task of the server with a question", async () => {
    elicitAnswers.push({ action: "accept", content: { interpretation: "snake" } });
    const params = {
      name: "simulate-research-query",
      arguments: { topic: "python", ambiguous: true },
      task: { ttl: 60_000 },
    };
    const created = await client.request({ method: "tools/call", params }, CreateTaskResultSchema);
    // The question comes on the stream of this request.
    const result = await client.experimental.tasks.getTaskResult(created.task.taskId, CallToolResultSchema);
    const { statusMessage: _, ...task } = created.task;
    return { task, result, question: await asked("elicitation/create") };
  });
}

async function notificationsOfServer(step) {
  await step("logging", async () => {
    const levelSet = await client.setLoggingLevel("debug");
    const on = await call("toggle-simulated-logging");
    const message = await notifications.takeNotification("notifications/message", ({ data }) =>
      /^\w+[- ]level[- ]message/.test(data),
    );
    const off = await call("toggle-simulated-logging");
    // Level and text are random.
    return { levelSet, on, keys: Object.keys(message.params).sort(), off };
  });
  const uri = "demo://resource/dynamic/text/1";
  await step("subscribed resource is updated", async () => [
    await client.subscribeResource({ uri }),
    await logged("Received Subscribe"),
    await call("toggle-subscriber-updates"),
    await notifications.takeNotification("notifications/resources/updated"),
    await call("toggle-subscriber-updates"),
    await client.unsubscribeResource({ uri }),
    await logged("Received Unsubscribe"),
  ]);
  await step("list of resources changes", async () => [
    await call("gzip-file-as-resource", { name: "hello.gz", data: "data:text/plain,hello" }),
    await notifications.takeNotification("notifications/resources/list_changed"),
    await client.readResource({ uri: "demo://resource/session/hello.gz" }),
  ]);
}

async function resourcesAndPrompts(step) {
  await step("resources/list", () => client.listResources());
  await step("resources/templates/list", () => client.listResourceTemplates());
  for (const uri of ["demo://resource/dynamic/text/3", "demo://resource/dynamic/blob/4"]) {
    await step(`read ${uri}`, () => client.readResource({ uri }));
  }
  await step("read a document", async () => {
    const { resources } = await client.listResources();
    return client.readResource({ uri: resources.find((r) => r.mimeType === "text/markdown").uri });
  });
  await step("prompts/list", () => client.listPrompts());
  await step("simple prompt", () => client.getPrompt({ name: "simple-prompt" }));
  await step("prompt with arguments", () =>
    client.getPrompt({ name: "args-prompt", arguments: { city: "Köln", state: "NRW" } }),
  );
  await step("prompt with a resource", () =>
    client.getPrompt({ name: "resource-prompt", arguments: { resourceType: "Text", resourceId: "2" } }),
  );
  await step("completion of a prompt argument", () =>
    client.complete({
      ref: { type: "ref/prompt", name: "completable-prompt" },
      argument: { name: "name", value: "E" },
      context: { arguments: { department: "Sales" } },
    }),
  );
  await step("completion of a resource template", () =>
    client.complete({
      ref: { type: "ref/resource", uri: "demo://resource/dynamic/text/{resourceId}" },
      argument: { name: "resourceId", value: "12" },
    }),
  );
}

await run(async (step) => {
  await handshake(step);
  await tools(step);
  await longCalls(step);
  await errors(step);
  await serverRequests(step);
  await tasks(step);
  await notificationsOfServer(step);
  await resourcesAndPrompts(step);
  await step("close", () => closePromptly(client));
});
