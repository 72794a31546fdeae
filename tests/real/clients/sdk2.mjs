// The TypeScript SDK 2.x as client, in legacy or auto mode, directly or through the bridge.
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { bridge, closePromptly, Inbox, isSse, outcome, progressOf, run, usage } from "./scenario.mjs";

const [url, mode] = usage(["url", "legacy|auto"]);
const notifications = new Inbox();

const client = new Client(
  { name: "sdk2", version: "1.0.0" },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } },
);
client.fallbackNotificationHandler = async (notification) => notifications.push(notification);
client.setRequestHandler("elicitation/create", (request) => ({
  action: "accept",
  content: { name: `Ada, who was asked: ${request.params.message}` },
}));

const call = (name, args, options) => client.callTool({ name, arguments: args }, options);

const DirectTransport = isSse(url) ? SSEClientTransport : StreamableHTTPClientTransport;

async function handshake(step) {
  await step("connect", async () => {
    const transport = bridge
      ? new StdioClientTransport({ command: bridge, args: [url] })
      : new DirectTransport(new URL(url));
    await client.connect(transport);
    return {
      version: client.getNegotiatedProtocolVersion(),
      era: client.getProtocolEra(),
      serverInfo: client.getServerVersion(),
      capabilities: client.getServerCapabilities(),
      instructions: client.getInstructions(),
      discovered: client.getDiscoverResult(),
    };
  });
}

const withProgress = (name, args) => progressOf(client, (options) => call(name, args, options));

async function everything(step) {
  await step("sum", () => call("get-sum", { a: 2, b: 3 }));
  await step("structured content", () => call("get-structured-content", { location: "New York" }));
  await step("progress", () =>
    withProgress("trigger-long-running-operation", { duration: 0.4, steps: 4 }),
  );
  await step("elicitation", () => call("trigger-elicitation-request", {}));
  await step("list changed", async () => [
    await call("gzip-file-as-resource", { name: "a.gz", data: "data:text/plain,a" }),
    await notifications.takeNotification("notifications/resources/list_changed"),
  ]);
  await step("ping", () => client.ping());
}

async function modernFixture(step) {
  await step("sum", () => call("add", { a: 2, b: 3 }));
  await step("progress", () => withProgress("slow", { steps: 4, pauseMs: 50 }));
  await step("resources/list", () => client.listResources());
  await step("read", () => client.readResource({ uri: "note://one" }));
  // Refused where the revision or the stateless server does not have these.
  await step("ping", () => outcome(client.ping()));
  if (client.getProtocolEra() !== "modern") return;
  await step("question within a call", () => call("greet", {}));
  await step("subscription", async () => {
    const filter = { toolsListChanged: true, resourceSubscriptions: ["note://one"] };
    const subscription = await client.listen(filter);
    return [
      subscription.honoredFilter,
      await call("touch", {}),
      (await notifications.takeNotification("notifications/resources/updated")).params.uri,
      (await notifications.takeNotification("notifications/tools/list_changed")).method,
      await subscription.close(),
      await subscription.closed,
    ];
  });
}

await run(async (step) => {
  await handshake(step);
  const { tools } = await step("tools/list", () => client.listTools());
  await step("echo", () => call("echo", { message: "grüße 🦀\n\"line two\"" }));
  const isEverything = tools.some((tool) => tool.name === "get-sum");
  await (isEverything ? everything : modernFixture)(step);
  await step("unknown tool", () => outcome(call("no-such-tool", {})));
  await step("close", () => closePromptly(client));
});
