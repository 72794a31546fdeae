// An MCP server that is its own authorization server and takes everybody: it prints each request as a line of JSON.
// Argument: http, or sse for the transport of 2024.
import { createServer } from "node:http";

const transport = process.argv[2];
const TOOLS = ["deleteTask", "removeUser", "getAccount", "list"].map((name) => ({ name, inputSchema: { type: "object" } }));
const GOOD = new Set(["my-token", "<auth-token>"]);
const DEVICE = "urn:ietf:params:oauth:grant-type:device_code";
let issued = 0;
let stream;

const jwt = (claims) => ["e30", Buffer.from(JSON.stringify(claims)).toString("base64url"), "signature"].join(".");

function token(form) {
  const access_token = `access-${++issued}`;
  GOOD.add(access_token);
  const answer = { access_token, token_type: "Bearer", expires_in: 3600, refresh_token: `refresh-${issued}` };
  const exp = Math.floor(Date.now() / 1000) + 3600;
  if ((codes.get(form.get("code")) ?? "").split(" ").includes("openid")) answer.id_token = jwt({ sub: "ada", exp });
  if (answer.id_token) GOOD.add(answer.id_token);
  return answer;
}

const codes = new Map();
function authorize(query) {
  const code = `code-${++issued}`;
  codes.set(code, query.get("scope") ?? "");
  const back = new URL(query.get("redirect_uri"));
  back.searchParams.set("code", code);
  back.searchParams.set("state", query.get("state"));
  back.searchParams.set("iss", origin);
  return back.href;
}

const metadata = () => ({
  issuer: origin,
  authorization_endpoint: `${origin}/authorize`,
  token_endpoint: `${origin}/token`,
  registration_endpoint: `${origin}/register`,
  device_authorization_endpoint: `${origin}/device_authorization`,
  response_types_supported: ["code"],
  grant_types_supported: ["authorization_code", "refresh_token", "client_credentials", DEVICE],
  code_challenge_methods_supported: ["S256"],
  token_endpoint_auth_methods_supported: ["none", "client_secret_basic", "client_secret_post"],
  authorization_response_iss_parameter_supported: true,
  client_id_metadata_document_supported: true,
});

const devices = () => ({
  device_code: "device",
  user_code: "WDJB-MJHT",
  verification_uri: `${origin}/activate`,
  expires_in: 600,
  interval: 1,
});

function answer(message) {
  const results = {
    initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "recording", version: "1" } },
    "tools/list": { tools: TOOLS },
  };
  if (message.method === "server/discover") {
    return { jsonrpc: "2.0", id: message.id, error: { code: -32601, message: "Method not found" } };
  }
  return { jsonrpc: "2.0", id: message.id, result: results[message.method] ?? {} };
}

function mcp(request, response, text) {
  const bearer = (request.headers.authorization ?? "").replace("Bearer ", "");
  if (!GOOD.has(bearer)) {
    const challenge = `Bearer resource_metadata="${origin}/.well-known/oauth-protected-resource${new URL(request.url, origin).pathname}"`;
    return response.writeHead(401, { "WWW-Authenticate": challenge }).end();
  }
  if (request.method === "GET" && transport === "sse") {
    stream = response;
    response.writeHead(200, { "Content-Type": "text/event-stream", "Set-Cookie": "node=7; Path=/" });
    return response.write("event: endpoint\ndata: /messages\n\n");
  }
  if (request.method !== "POST") return response.writeHead(405).end();
  const message = JSON.parse(text);
  const reply = message.id === undefined ? undefined : JSON.stringify(answer(message));
  if (stream) {
    response.writeHead(202).end();
    return reply && stream.write(`event: message\ndata: ${reply}\n\n`);
  }
  if (!reply) return response.writeHead(202).end();
  response.writeHead(200, { "Content-Type": "application/json", "Set-Cookie": "node=7; Path=/" }).end(reply);
}

function serve(request, response, text) {
  const url = new URL(request.url, origin);
  const json = (status, body) => response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
  if (url.pathname.startsWith("/.well-known/oauth-protected-resource")) {
    const path = url.pathname.replace("/.well-known/oauth-protected-resource", "");
    const scopes = path === "/silent" ? undefined : ["mcp:read"];
    return json(200, { resource: `${origin}${path}`, authorization_servers: [origin], scopes_supported: scopes });
  }
  switch (url.pathname) {
    case "/.well-known/oauth-authorization-server":
      return json(200, metadata());
    case "/register":
      return json(201, { ...JSON.parse(text), client_id: "registered", client_secret: undefined });
    case "/authorize":
      return response.writeHead(302, { Location: authorize(url.searchParams) }).end();
    case "/token":
      return json(200, token(new URLSearchParams(text)));
    case "/device_authorization":
      return json(200, devices());
  }
  if (url.pathname.startsWith("/.well-known/")) return json(404, {});
  mcp(request, response, text);
}

let origin;
const http = createServer((request, response) => {
  let text = "";
  request.on("data", (piece) => (text += piece));
  request.on("end", () => {
    const { method, url, headers } = request;
    console.log(JSON.stringify({ method, url, headers, text }));
    serve(request, response, text);
  });
});
http.listen(0, "127.0.0.1", () => {
  origin = `http://127.0.0.1:${http.address().port}`;
  console.log(origin);
});
