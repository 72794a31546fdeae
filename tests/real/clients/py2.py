"""The Python SDK 2.x as client in its default auto mode, directly or through the bridge."""

import asyncio
import base64
import json
import os
import re
import sys
import time
import traceback

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.shared.exceptions import MCPError

LIFETIME_SECONDS = 60
WAIT_SECONDS = 10


def normalise(value):
    """Replaces what differs from run to run by nature."""
    if isinstance(value, dict):
        return {k: blob(v) if k == "blob" else normalise(v) for k, v in value.items()}
    if isinstance(value, list):
        return [normalise(entry) for entry in value]
    return normalise_text(value) if isinstance(value, str) else value


def normalise_text(text):
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uuid>", text)
    return re.sub(r"\b\d{1,2}:\d{2}:\d{2}(\s?[AP]M)?", "<time>", text)


def blob(encoded):
    """The demo server hides a clock time inside of base64."""
    decoded = base64.b64decode(encoded).decode("utf-8", "replace")
    masked = normalise_text(decoded)
    return encoded if masked == decoded else {"base64Of": masked}


def plain(value):
    """Makes JSON of what the SDK gives."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return value


class Scenario:
    """Runs named steps and keeps their results."""

    def __init__(self):
        self.steps = []
        self.current = "start"

    async def step(self, name, awaitable):
        self.current = name
        try:
            result = await awaitable
        except MCPError as error:
            result = {"error": plain(error.error)}
        self.steps.append({"step": name, "result": normalise(plain(result))})
        return result


async def answer(_context, params):
    return types.ElicitResult(action="accept", content={"name": f"Ada, asked: {params.message}"})


async def handshake(client):
    return {
        "version": client.protocol_version,
        "serverInfo": client.server_info,
        "capabilities": client.server_capabilities,
        "instructions": client.instructions,
    }


async def with_progress(client, name, arguments):
    progress = []

    async def note(done, total, message):
        progress.append([done, total, message])

    result = await client.call_tool(name, arguments, progress_callback=note)
    return {"progress": progress, "result": result}


async def side_by_side(client, name, arguments):
    return await asyncio.gather(*(client.call_tool(name, arguments) for _ in range(4)))


async def everything(client, scenario, messages):
    step = scenario.step
    await step("sum", client.call_tool("get-sum", {"a": 2, "b": 3}))
    await step("image", client.call_tool("get-tiny-image", {}))
    slow = "trigger-long-running-operation"
    await step("progress", with_progress(client, slow, {"duration": 0.4, "steps": 4}))
    await step("side by side", side_by_side(client, slow, {"duration": 0.3, "steps": 1}))
    await step("elicitation", client.call_tool("trigger-elicitation-request", {}))
    await step("resource templates", client.list_resource_templates())
    await step("text resource", client.read_resource("demo://resource/dynamic/text/1"))
    await step("blob resource", client.read_resource("demo://resource/dynamic/blob/2"))
    await step("prompts/list", client.list_prompts())
    await step("prompt", client.get_prompt("args-prompt", {"city": "Köln"}))
    await step("ping", client.send_ping())
    changed = asyncio.wait_for(messages.get(), WAIT_SECONDS)
    await step("compress", client.call_tool("gzip-file-as-resource", {"data": "data:,a"}))
    await step("list changed", changed)


async def modern_fixture(client, scenario):
    step = scenario.step
    await step("sum", client.call_tool("add", {"a": 2, "b": 3}))
    await step("progress", with_progress(client, "slow", {"steps": 4, "pauseMs": 50}))
    await step("side by side", side_by_side(client, "slow", {"steps": 1, "pauseMs": 100}))
    await step("question within a call", client.call_tool("greet", {}))
    await step("resource", client.read_resource("note://one"))


async def scenario_with(server, scenario):
    messages = asyncio.Queue()

    async def keep_list_changed(message):
        if isinstance(message, types.ResourceListChangedNotification):
            messages.put_nowait(message)

    client = Client(server, elicitation_callback=answer, message_handler=keep_list_changed)
    async with client:
        await scenario.step("connect", handshake(client))
        tools = await scenario.step("tools/list", client.list_tools())
        await scenario.step("echo", client.call_tool("echo", {"message": 'grüße 🦀\n"two"'}))
        await scenario.step("resources/list", client.list_resources())
        if any(tool.name == "get-sum" for tool in tools.tools):
            await everything(client, scenario, messages)
        else:
            await modern_fixture(client, scenario)
        await scenario.step("unknown tool", client.call_tool("no-such-tool", {}))
        started = time.monotonic()
    # The SDK sends SIGTERM after two seconds.
    prompt = time.monotonic() - started < 1.9
    scenario.steps.append({"step": "close", "result": {"withinTwoSeconds": prompt}})


def server_at(url):
    """How to reach the server: through the bridge when BRIDGE names its program, else directly."""
    bridge = os.environ.get("BRIDGE")
    if bridge:
        return StdioServerParameters(command=bridge, args=[url])
    # A URL alone means Streamable HTTP to the SDK.
    return sse_client(url) if url.endswith("/sse") else url


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: [BRIDGE=program] python py2.py <url>")
    url = sys.argv[1]
    scenario = Scenario()
    try:
        asyncio.run(asyncio.wait_for(scenario_with(server_at(url), scenario), LIFETIME_SECONDS))
    except BaseException:
        traceback.print_exc()
        done = ", ".join(entry["step"] for entry in scenario.steps)
        sys.exit(f'step "{scenario.current}" failed; steps that were done: {done}')
    print(json.dumps(scenario.steps, indent=2, ensure_ascii=False))


main()
