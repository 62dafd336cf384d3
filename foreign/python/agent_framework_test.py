"""Microsoft's agent framework, whose client of AG-UI it is: an agent with tools of its own, against a real server."""

import json
import os
import unittest
import urllib.request

from agent_framework import Agent, tool
from agent_framework_ag_ui import AGUIChatClient

URL = os.environ["HANDBACK_URL"]


class AgentFramework(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        client = AGUIChatClient(endpoint=f"{URL}/agui")
        self.addAsyncCleanup(client.close)
        self.calls = []

        @tool
        def weather(town: str) -> str:
            """The weather of a town"""
            self.calls.append(f"weather {town}")
            return f"rain in {town}"

        @tool
        def clock() -> str:
            """What time it is"""
            self.calls.append("clock")
            return "noon"

        self.agent = Agent(client=client, tools=[weather, clock])
        self.session = self.agent.create_session()

    async def say(self, text, **options):
        """Says something, and gives the answer."""
        answer = await self.agent.run(text, session=self.session, options=options)
        return answer.text

    async def test_plain(self):
        self.assertRegex(await self.say("Hello"), r"^I am the scripted demo model[^`]*`list_tools`, `weather`, `clock`\.")
        self.assertEqual(self.calls, [])

    async def test_stream(self):
        stream = self.agent.run('call weather {"town": "Oslo"}', session=self.session, stream=True)
        pieces = [update.text async for update in stream]
        self.assertEqual("".join(pieces), "The tool `weather` answered: rain in Oslo")

    async def test_one_tool(self):
        self.assertEqual(await self.say('call weather {"town": "Oslo"}'), "The tool `weather` answered: rain in Oslo")
        self.assertEqual(self.calls, ["weather Oslo"])

    async def test_two_tools_at_once(self):
        answer = await self.say('call weather {"town": "Oslo"}\ncall clock {}')
        self.assertEqual(answer, "The tool `weather` answered: rain in Oslo\n\nThe tool `clock` answered: noon")
        self.assertEqual(sorted(self.calls), ["clock", "weather Oslo"])

    async def test_a_tool_of_the_server_beside_one_of_its_own(self):
        answer = await self.say("call clock {}\ncall list_tools {}")
        self.assertRegex(answer, r"^The tool `clock` answered: noon\n\nThe tool `list_tools` answered: \[.*\"weather\"")
        self.assertEqual(self.calls, ["clock"])

    # The framework names a new thread with each request, unless it is told otherwise, and sends all that was said. The
    # server has to go on in either case.
    async def test_turns_of_new_threads(self):
        await self.say('call weather {"town": "Oslo"}')
        self.assertEqual(await self.say("call clock {}"), "The tool `clock` answered: noon")
        self.assertEqual(self.calls, ["weather Oslo", "clock"])

    async def test_turns_of_one_thread(self):
        thread = {"thread_id": "python"}
        await self.say('call weather {"town": "Oslo"}', metadata=thread)
        self.assertEqual(await self.say("call clock {}", metadata=thread), "The tool `clock` answered: noon")
        self.assertEqual(self.calls, ["weather Oslo", "clock"])
        with urllib.request.urlopen(f"{URL}/session/python/message") as answer:
            messages = json.load(answer)
        # What is sent again is not kept again.
        parts = [f"{message['info']['role']} {part['type']}" for message in messages for part in message["parts"]]
        said = [part for part in parts if "step-" not in part]
        self.assertEqual(said, ["user text", "assistant tool", "assistant text"] * 2)


if __name__ == "__main__":
    unittest.main()
