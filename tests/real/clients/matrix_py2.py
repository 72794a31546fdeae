"""The Python SDK 2.x as client in the matrix of peers: auto, legacy, or pinned to 2026-07-28."""

import asyncio
import json
import os
import sys

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client

WAIT_SECONDS = 10
BETWEEN_LOOKS_SECONDS = 0.05
MODES = {"auto": "auto", "legacy": "legacy", "modern": "2026-07-28"}


async def answer(_context, _params):
    return types.ElicitResult(action="accept", content={"name": "Ada"})


def text_of(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


class Visit:
    """One client at one server."""

    def __init__(self, client, calls, changed):
        self.client, self.calls, self.changed = client, calls, changed

    async def call(self, kind, **options):
        call = self.calls[kind]
        return await self.client.call_tool(call["name"], call["arguments"], **options)

    async def tools(self):
        dump = {"mode": "json", "by_alias": True, "exclude_none": True}
        return [tool.model_dump(**dump) for tool in (await self.client.list_tools()).tools]

    async def check_call(self):
        return text_of(await self.call("echo"))

    async def elicitation(self):
        return text_of(await self.call("ask"))

    async def progress(self):
        steps = []

        async def note(done, _total, _message):
            steps.append(done)

        result = await self.call("slow", progress_callback=note)
        return {"steps": steps, "text": text_of(result)}

    async def list_changed(self):
        if self.client.protocol_version < "2026":
            await self.call("change")
            await self.changed.wait()
            return True
        async with self.client.listen(tools_list_changed=True, resources_list_changed=True) as events:
            await self.call("change")
            async for _event in events:
                return True

    async def cancellation(self):
        started = asyncio.Event()

        async def note(_done, _total, _message):
            started.set()

        call = asyncio.ensure_future(self.call("long", progress_callback=note))
        await started.wait()
        call.cancel()
        await asyncio.wait([call])
        if not call.cancelled():
            raise RuntimeError("the call was answered although it was cancelled")
        while "cancelled" in self.calls and text_of(await self.call("cancelled")) != "true":
            await asyncio.sleep(BETWEEN_LOOKS_SECONDS)
        return text_of(await self.call("echo"))


def leaves(error):
    """The errors in a group, which says nothing by itself."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [error]


async def outcome_of(awaitable):
    try:
        return await asyncio.wait_for(awaitable, WAIT_SECONDS)
    except Exception as error:
        return {"error": "; ".join(str(leaf) or repr(leaf) for leaf in leaves(error))}


def server_of(plan, job, bridged):
    if bridged:
        # The SDK hands a bridge but few variables of ours.
        env = {"MCP_SPAN_STATE_DIR": plan["state"]}
        return StdioServerParameters(command=plan["bridge"], args=[job["url"], *plan["flags"]], env=env)
    return sse_client(job["url"]) if job["sse"] else job["url"]


async def visit(plan, job, bridged, wanted):
    changed = asyncio.Event()
    kinds = (types.ToolListChangedNotification, types.ResourceListChangedNotification)

    async def note(message):
        if isinstance(message, kinds):
            changed.set()

    options = {"elicitation_callback": answer, "message_handler": note, "mode": MODES[plan["mode"]]}
    outcome = {}

    async def stay():
        async with Client(server_of(plan, job, bridged), **options) as client:
            outcome["version"] = client.protocol_version
            visit = Visit(client, job["calls"], changed)
            for name in wanted:
                check = visit.check_call if name == "call" else getattr(visit, name)
                outcome[name] = await outcome_of(check())

    try:
        await stay()
    except Exception as error:
        outcome["error"] = "; ".join(str(leaf) or repr(leaf) for leaf in leaves(error))
    return outcome


async def main():
    plan = json.loads(sys.argv[1])
    for job in plan["jobs"]:
        direct = await visit(plan, job, False, ["tools"]) if job["direct"] else None
        bridged = await visit(plan, job, True, job["checks"])
        print(json.dumps({"server": job["server"], "direct": direct, "bridged": bridged}), flush=True)
    sys.stdout.flush()
    os._exit(0)


asyncio.run(main())
