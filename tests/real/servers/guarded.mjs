// An MCP server that takes no message without a token of the provider in its first argument.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { InvalidTokenError } from "@modelcontextprotocol/sdk/server/auth/errors.js";
import { requireBearerAuth } from "@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js";
import {
  getOAuthProtectedResourceMetadataUrl,
  mcpAuthMetadataRouter,
} from "@modelcontextprotocol/sdk/server/auth/router.js";
import { createMcpExpressApp } from "@modelcontextprotocol/sdk/server/express.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { SSEServerTransport } from "@modelcontextprotocol/sdk/server/sse.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";

const issuer = process.argv[2];
// "http", or "sse" for the transport of 2024.
const transport = process.argv[3];
const SCOPE = "mcp:tools";
const CREDENTIALS = `Basic ${btoa("mcp-server:of+the+server")}`;

const metadata = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();

// RFC 7662: the provider is asked about every token, so a revoked one is refused at once.
async function verifyAccessToken(token) {
  const answer = await fetch(metadata.introspection_endpoint, {
    method: "POST",
    headers: { Authorization: CREDENTIALS },
    body: new URLSearchParams({ token }),
  });
  const said = await answer.json();
  if (!said.active) throw new InvalidTokenError("This token is not good, or not any more");
  const scopes = (said.scope ?? "").split(" ");
  const resource = said.aud && new URL(said.aud);
  return { token, clientId: said.client_id, scopes, expiresAt: said.exp, resource, extra: { sub: said.sub } };
}

function makeServer() {
  const server = new McpServer({ name: "guarded", version: "1.0.0" });
  server.registerTool("whoami", { description: "Whose token it is" }, ({ authInfo }) => {
    const who = authInfo.extra.sub ?? authInfo.clientId;
    return { content: [{ type: "text", text: `${who}: ${authInfo.scopes.join(" ")}` }] };
  });
  return server;
}

const sessions = new Map();

async function serveHttp(request, response) {
  const known = sessions.get(request.headers["mcp-session-id"]);
  if (known) return known.handleRequest(request, response, request.body);
  const session = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, session),
    onsessionclosed: (id) => void console.log("closed", sessions.delete(id)),
  });
  await makeServer().connect(session);
  return session.handleRequest(request, response, request.body);
}

async function openSse(_, response) {
  const session = new SSEServerTransport("/messages", response);
  sessions.set(session.sessionId, session);
  await makeServer().connect(session);
}

function serveAt(url) {
  const app = createMcpExpressApp();
  app.use(mcpAuthMetadataRouter({ oauthMetadata: metadata, resourceServerUrl: url, scopesSupported: [SCOPE] }));
  const guard = requireBearerAuth({
    verifier: { verifyAccessToken },
    requiredScopes: [SCOPE],
    resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(url),
    expectedResource: url,
  });
  if (transport === "http") {
    app.all("/mcp", guard, serveHttp);
  } else {
    app.get("/sse", guard, openSse);
    app.post("/messages", guard, (request, response) =>
      sessions.get(request.query.sessionId).handlePostMessage(request, response, request.body),
    );
  }
  return app;
}

const http = createServer();
http.listen(0, "127.0.0.1", () => {
  const url = new URL(`http://127.0.0.1:${http.address().port}/${transport === "http" ? "mcp" : "sse"}`);
  http.on("request", serveAt(url));
  console.log(url.href);
});
