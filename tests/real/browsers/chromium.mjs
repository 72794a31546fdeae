// A person at a real Chromium: opens a page, presses the button of each, and leaves the text of the last one
// and its address. Arguments: a folder, and the page. Files in the folder say what the person is like: with
// `slow` they begin when there is a file `go`, with `unwilling` they refuse, and `pictures` holds the
// beginning of the names under which the last page is photographed.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

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

const has = (name) => existsSync(join(folder, name));

const PRESS = `(() => {
  const button = document.querySelector("${has("unwilling") ? "button[name=refuse]" : "button"}");
  button?.click();
  return button ? null : [document.body.innerText, location.href];
})()`;

async function photograph(sessionId, name) {
  for (const value of ["light", "dark"]) {
    await command("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] }, sessionId);
    for (const width of [390, 1000]) {
      const metrics = { width, height: 640, deviceScaleFactor: 1, mobile: false };
      await command("Emulation.setDeviceMetricsOverride", metrics, sessionId);
      const { data } = await command("Page.captureScreenshot", { format: "png" }, sessionId);
      writeFileSync(`${name}-${value}-${width}.png`, Buffer.from(data, "base64"));
    }
  }
}

// At once or not at all: somebody waits for it.
function leave(name, text) {
  writeFileSync(join(folder, `${name}.part`), text);
  renameSync(join(folder, `${name}.part`), join(folder, name));
}

// Who is slow has opened the page, and looks at it.
leave("start", page);
let open = page;
if (has("slow")) open = (await fetch(page, { redirect: "manual" })).headers.get("location");
while (has("slow") && !has("go")) await sleep(20);
if (!existsSync(folder)) browser.kill("SIGKILL");

const { targetId } = await command("Target.createTarget", { url: "about:blank" });
const { sessionId } = await command("Target.attachToTarget", { targetId, flatten: true });
await command("Page.enable", {}, sessionId);
listeners.set("Page.loadEventFired", async () => {
  const { result } = await command("Runtime.evaluate", { expression: PRESS, returnByValue: true }, sessionId);
  if (result.value === null) return;
  const [text, address] = result.value;
  if (has("pictures")) await photograph(sessionId, readFileSync(join(folder, "pictures"), "utf8"));
  leave("last-address", address);
  leave("last-page", text);
  await command("Browser.close");
});
await command("Page.navigate", { url: open }, sessionId);
browser.on("exit", () => process.exit());
