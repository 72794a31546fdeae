// The TypeScript SDK 2.x as client in the matrix of peers: legacy, auto, or pinned to 2026-07-28.
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { runPlan, signal } from "./matrix.mjs";

const MODES = { legacy: "legacy", auto: "auto", modern: { pin: "2026-07-28" } };

await runPlan(async (url, bridge, mode, isSse) => {
  const client = new Client(
    { name: "sdk2", version: "1.0.0" },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: MODES[mode] } },
  );
  const changed = signal();
  client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { name: "Ada" } }));
  client.fallbackNotificationHandler = async ({ method }) => {
    if (method.endsWith("/list_changed")) changed.tell();
  };
  const DirectTransport = isSse ? SSEClientTransport : StreamableHTTPClientTransport;
  await client.connect(bridge ? new StdioClientTransport(bridge) : new DirectTransport(new URL(url)));
  let subscription;
  return {
    sdk: client,
    version: () => client.getNegotiatedProtocolVersion(),
    listTools: async () => (await client.listTools()).tools,
    call: (call, options) => client.callTool(call, options),
    listen: async () => {
      if (client.getProtocolEra() !== "modern") return;
      subscription = await client.listen({ toolsListChanged: true, resourcesListChanged: true });
    },
    changed: async () => {
      await changed.come;
      await subscription?.close();
      return true;
    },
    close: () => client.close(),
  };
});
