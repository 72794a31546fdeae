// A person at a real Chromium: opens a page, presses the button of each, and leaves the text of the last one.
// Arguments: a folder, and the page.
import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [folder, page] = process.argv.slice(2);
const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"];
const profile = `--user-data-dir=${mkdtempSync(join(folder, "chromium-"))}`;
const browser = spawn("chromium", [...flags, profile, "--remote-debugging-pipe"], {
  stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
});
const [, , , commands, events] = browser.stdio;
// Longer than any login takes; nobody waits for a browser that hangs.
setTimeout(() => browser.kill("SIGKILL"), 60_000).unref();

const waiting = new Map();
const listeners = new Map();
let last = 0;

// The DevTools protocol: JSON with a NUL behind each message.
function command(method, params, sessionId) {
  last += 1;
  commands.write(`${JSON.stringify({ id: last, method, params, sessionId })}\0`);
  return new Promise((resolve, reject) => waiting.set(last, { resolve, reject }));
}

function receive({ id, method, result, error }) {
  if (id === undefined) return listeners.get(method)?.();
  const { resolve, reject } = waiting.get(id);
  waiting.delete(id);
  if (error) reject(new Error(error.message));
  else resolve(result);
}

let rest = "";
events.setEncoding("utf8").on("data", (text) => {
  const messages = (rest + text).split("\0");
  rest = messages.pop();
  for (const message of messages) receive(JSON.parse(message));
});

const PRESS = `(() => {
  const button = document.querySelector("button");
  button?.click();
  return button ? null : document.body.innerText;
})()`;

const { targetId } = await command("Target.createTarget", { url: "about:blank" });
const { sessionId } = await command("Target.attachToTarget", { targetId, flatten: true });
await command("Page.enable", {}, sessionId);
listeners.set("Page.loadEventFired", async () => {
  const { result } = await command("Runtime.evaluate", { expression: PRESS, returnByValue: true }, sessionId);
  if (result.value === null) return;
  writeFileSync(join(folder, "last-page"), result.value);
  await command("Browser.close");
});
await command("Page.navigate", { url: page }, sessionId);
browser.on("exit", () => process.exit());
