// A certified OpenID provider with every grant that MCP knows; a person agrees to it by pressing a button.
// Arguments: the lifetime of access tokens in seconds, and the file for the key of the client robot-with-key.
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import Provider, { errors } from "oidc-provider";

const [lifetime, keyFile] = [Number(process.argv[2]), process.argv[3]];
const HOUR = 3600;
const SCOPE = "mcp:tools";

const say = (...words) => console.log(words.join(" "));

// No address beyond this machine in it: the pages of the package load a font from the internet.
const page = (content) => `<!doctype html>\n<meta charset="utf-8">\n<title>Sign in</title>\n${content}\n`;

const form = (action, fields) => {
  const inputs = Object.entries(fields).map(([name, value]) => `<input name="${name}" value="${value}">`);
  const buttons = ["<button>Continue</button>", '<button name="refuse" value="yes">Refuse</button>'];
  return page([`<form method="post" action="${action}">`, ...inputs, ...buttons, "</form>"].join("\n"));
};

const withButton = (made) => page(made.replace("</form>", "<button>Continue</button>\n</form>"));

function clients() {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  writeFileSync(keyFile, privateKey.export({ type: "pkcs8", format: "pem" }), { mode: 0o600 });
  const machine = { redirect_uris: [], response_types: [], grant_types: ["client_credentials"] };
  return [
    { ...machine, grant_types: [], client_id: "mcp-server", client_secret: "of the server" },
    { ...machine, client_id: "robot", client_secret: "of: the robot" },
    {
      ...machine,
      client_id: "robot-with-key",
      token_endpoint_auth_method: "private_key_jwt",
      jwks: { keys: [publicKey.export({ format: "jwk" })] },
    },
  ];
}

// RFC 8707: a token is for one server, and nobody else takes it.
const resourceIndicators = {
  enabled: true,
  useGrantedResource: () => true,
  getResourceServerInfo(_, resource) {
    if (new URL(resource).hostname !== "127.0.0.1") throw new errors.InvalidTarget();
    return { scope: SCOPE, audience: resource, accessTokenTTL: lifetime, accessTokenFormat: "opaque" };
  },
};

const deviceFlow = {
  enabled: true,
  userCodeInputSource: (ctx, made) => void (ctx.body = withButton(made)),
  userCodeConfirmSource: (ctx, made) => void (ctx.body = withButton(made)),
  successSource: (ctx) => void (ctx.body = page("<p>Your device is logged in.")),
};

const configuration = {
  clients: clients(),
  cookies: { keys: ["for tests alone"] },
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    deviceFlow,
    introspection: { enabled: true, allowedPolicy: (_, client) => client.clientId === "mcp-server" },
    registration: { enabled: true },
    resourceIndicators,
    revocation: { enabled: true, allowedPolicy: (_, client, token) => client.clientId === token.clientId },
  },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { url: (_, { uid }) => `/interaction/${uid}` },
  pkce: { required: () => true },
  renderError: (ctx, { error, error_description: why }) => void (ctx.body = page(`<p>${error}: ${why}`)),
  scopes: ["openid", "offline_access", SCOPE],
  ttl: {
    AccessToken: lifetime,
    ClientCredentials: lifetime,
    DeviceCode: HOUR,
    Grant: HOUR,
    IdToken: HOUR,
    Interaction: HOUR,
    RefreshToken: HOUR,
    Session: HOUR,
  },
};

function tell(provider) {
  provider.on("registration_create.success", (_, client) => say("registered", client.applicationType, client.clientId));
  provider.on("authorization.success", (ctx) => say("authorized", ctx.oidc.params.resource));
  provider.on("grant.success", ({ oidc }) => say("token by", oidc.params.grant_type, "for", oidc.params.resource));
  provider.on("grant.error", ({ oidc }, error) => say("no token by", oidc.params?.grant_type, error.error, error.error_description));
  provider.on("grant.revoked", () => say("grant revoked"));
  provider.on("access_token.destroyed", () => say("access token ended"));
  provider.on("access_token.saved", (token) => good.add(token));
  provider.on("server_error", (_, error) => say("failed", error.stack));
}

// What an administrator can do, and no client: a client that revokes an access token loses all of its grant.
const good = new Set();
async function endAccessTokens(response) {
  await Promise.all([...good].map((token) => token.destroy()));
  good.clear();
  response.writeHead(204).end();
}

// The two pages that a person sees: who are you, and do you agree.
async function interact(provider, request, response) {
  const details = await provider.interactionDetails(request, response);
  const { prompt, uid, grantId, session, params } = details;
  if (request.method === "GET") {
    const action = `${provider.issuer}/interaction/${uid}`;
    response.setHeader("Content-Type", "text/html; charset=utf-8");
    return response.end(form(action, prompt.name === "login" ? { login: "ada" } : { agreed: "yes" }));
  }
  const fields = await body(request);
  if (fields.get("refuse")) {
    const refusal = { error: "access_denied", error_description: "Ada does not agree" };
    return provider.interactionFinished(request, response, refusal);
  }
  if (prompt.name === "login") {
    return provider.interactionFinished(request, response, { login: { accountId: fields.get("login") } });
  }
  const known = grantId && (await provider.Grant.find(grantId));
  const grant = known || new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope((prompt.details.missingOIDCScope ?? []).join(" "));
  for (const [resource, scopes] of Object.entries(prompt.details.missingResourceScopes ?? {})) {
    grant.addResourceScope(resource, scopes.join(" "));
  }
  const consent = { grantId: await grant.save() };
  return provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true });
}

async function body(request) {
  let text = "";
  for await (const piece of request) text += piece;
  return new URLSearchParams(text);
}

// From then on no token is given out.
let isBroken = false;
const JSON_TYPE = { "Content-Type": "application/json" };
const BROKEN = JSON.stringify({ error: "server_error", error_description: "the database is gone" });

const http = createServer();
http.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${http.address().port}`;
  const provider = new Provider(issuer, configuration);
  tell(provider);
  const serve = provider.callback();
  http.on("request", (request, response) => {
    if (request.url === "/end-access-tokens") return endAccessTokens(response);
    if (request.url === "/break-tokens") {
      isBroken = true;
      return response.writeHead(204).end();
    }
    if (isBroken && request.url === "/token") return response.writeHead(503, JSON_TYPE).end(BROKEN);
    if (!request.url.startsWith("/interaction/")) return serve(request, response);
    interact(provider, request, response).catch((error) => {
      say("failed", error.stack);
      response.writeHead(500).end();
    });
  });
  say(issuer);
});
