// The TypeScript SDK 1.x as client in the matrix of peers; it knows the legacy era alone.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { runPlan, signal } from "./matrix.mjs";

await runPlan(async (url, bridge, _mode, isSse) => {
  const client = new Client(
    { name: "sdk1", version: "1.0.0" },
    { capabilities: { elicitation: { form: {} } } },
  );
  const changed = signal();
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept", content: { name: "Ada" } }));
  client.fallbackNotificationHandler = async ({ method }) => {
    if (method.endsWith("/list_changed")) changed.tell();
  };
  const DirectTransport = isSse ? SSEClientTransport : StreamableHTTPClientTransport;
  let version;
  const transport = bridge ? new StdioClientTransport(bridge) : new DirectTransport(new URL(url));
  const inner = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (negotiated) => {
    version = negotiated;
    inner?.(negotiated);
  };
  await client.connect(transport);
  return {
    sdk: client,
    version: () => version,
    listTools: async () => (await client.listTools()).tools,
    call: (call, options) => client.callTool(call, undefined, options),
    listen: async () => {},
    changed: () => changed.come,
    close: () => client.close(),
  };
});
