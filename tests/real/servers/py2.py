"""An MCP server on the Python SDK 2.x, of both eras: the tools that the matrix of peers calls."""

import asyncio
import socket
import sys
from typing import Annotated

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel

server = MCPServer("python-fixture")
cancelled = set()


class Name(BaseModel):
    name: str


@server.tool()
def echo(message: str) -> str:
    """Gives the message back"""
    return message


@server.tool()
async def slow(steps: int, pauseMs: int, context: Context, label: str = "") -> str:
    """Reports progress"""
    try:
        for step in range(1, steps + 1):
            await asyncio.sleep(pauseMs / 1000)
            await context.report_progress(step, steps)
    except asyncio.CancelledError:
        cancelled.add(label)
        raise
    return f"did {steps} steps"


def ask_for_a_name() -> Elicit[Name]:
    return Elicit("What is your name?", Name)


@server.tool()
def greet(who: Annotated[Name, Resolve(ask_for_a_name)]) -> str:
    """Asks for a name"""
    return f"Hello, {who.name}"


@server.tool()
async def touch(context: Context) -> str:
    """Says that the tools changed"""
    if (context.protocol_version or "") < "2026":
        await context.session.send_tool_list_changed()
    await context.notify_tools_changed()
    return "touched"


@server.tool(name="was-cancelled")
def was_cancelled(label: str) -> str:
    """Whether that call was cancelled"""
    return "true" if label in cancelled else "false"


def main():
    # Bound here, so that the port can be told; with its protocol named, or asyncio would not know it for TCP and
    # would let an event wait for the next one.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(config).run(sockets=[listener])


sys.exit(main())
