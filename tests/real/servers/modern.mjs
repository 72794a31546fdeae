// A small MCP server that speaks 2026-07-28 and, unless started with "strict", the older revisions too.
import { createServer } from "node:http";
import { localhostHostValidation, toNodeHandler } from "@modelcontextprotocol/node";
import { acceptedContent, createMcpHandler, inputRequired, McpServer } from "@modelcontextprotocol/server";
import { z } from "zod";

const text = (value) => ({ content: [{ type: "text", text: value }] });

function addTools(server) {
  server.registerTool(
    "echo",
    { description: "Gives the message back", inputSchema: z.object({ message: z.string() }) },
    ({ message }) => text(message),
  );
  server.registerTool(
    "add",
    {
      description: "Adds two numbers",
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      outputSchema: z.object({ sum: z.number() }),
    },
    ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { sum: a + b } }),
  );
  server.registerTool(
    "slow",
    {
      description: "Reports progress",
      inputSchema: z.object({ steps: z.number(), pauseMs: z.number(), label: z.string().optional() }),
    },
    slow,
  );
  server.registerTool(
    "was-cancelled",
    { description: "Whether that call was cancelled", inputSchema: z.object({ label: z.string() }) },
    ({ label }) => text(String(cancelled.has(label))),
  );
}

// The labels of calls that were cancelled.
const cancelled = new Set();

async function slow({ steps, pauseMs, label }, context) {
  context.mcpReq.signal.addEventListener("abort", () => cancelled.add(label));
  const progressToken = context.mcpReq._meta?.progressToken;
  for (let progress = 1; progress <= steps; progress += 1) {
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    if (context.mcpReq.signal.aborted) break;
    if (progressToken === undefined) continue;
    const params = { progressToken, progress, total: steps, message: `step ${progress}` };
    await context.mcpReq.notify({ method: "notifications/progress", params });
  }
  return text(`did ${steps} steps`);
}

// Asks the user, which takes a second round trip of the same call.
function addQuestion(server) {
  const answer = z.object({ name: z.string() });
  server.registerTool("greet", { description: "Asks for a name", inputSchema: z.object({}) }, (_, context) => {
    const given = acceptedContent(context.mcpReq.inputResponses, "who", answer);
    if (given) return text(`Hello, ${given.name}`);
    const who = inputRequired.elicit({ message: "What is your name?", requestedSchema: answer });
    return inputRequired({ inputRequests: { who }, requestState: "opaque state" });
  });
}

function addResources(server) {
  const uri = "note://one";
  server.registerResource("one", uri, { mimeType: "text/plain", description: "A note" }, () => ({
    contents: [{ uri, mimeType: "text/plain", text: "first note" }],
  }));
  server.registerTool("touch", { description: "Says that things changed", inputSchema: z.object({}) }, () => {
    handler.notify.resourceUpdated(uri);
    handler.notify.toolsChanged();
    return text("touched");
  });
}

function makeServer() {
  const server = new McpServer(
    { name: "modern-fixture", version: "1.0.0" },
    {
      instructions: "A server for tests.",
      capabilities: { tools: { listChanged: true }, resources: { subscribe: true } },
    },
  );
  addTools(server);
  addQuestion(server);
  addResources(server);
  return server;
}

const handler = createMcpHandler(makeServer, {
  legacy: process.argv[2] === "strict" ? "reject" : "stateless",
});
const serve = toNodeHandler(handler);
const isLocal = localhostHostValidation();

const http = createServer((request, response) => {
  if (isLocal(request, response)) serve(request, response);
});
http.listen(0, "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${http.address().port}/mcp`);
});
