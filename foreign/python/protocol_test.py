"""The protocol's own Python types: their names in snake_case are taken, and they know every event that comes."""

import json
import os
import unittest
import urllib.request
import uuid

from ag_ui.core import (
    AssistantMessage,
    Context,
    Event,
    FunctionCall,
    ResumeEntry,
    RunAgentInput,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from pydantic import TypeAdapter

URL = os.environ["HANDBACK_URL"]
EVENT = TypeAdapter(Event)
LOCATE = Tool(name="locate", description="Where the user is", parameters={"type": "object"})


def say(text):
    return UserMessage(id=str(uuid.uuid4()), content=text)


class Protocol(unittest.TestCase):
    def run_agent(self, *messages, thread=None, **more):
        """Asks for a run, and gives its events."""
        asked = RunAgentInput(
            thread_id=thread or str(uuid.uuid4()),
            run_id=str(uuid.uuid4()),
            parent_run_id="before",
            messages=messages,
            tools=[LOCATE],
            context=[Context(description="The user's town", value="Oslo")],
            **{"forwarded_props": {}, **more},
        )
        # Not by alias: so they are sent by whoever does not think of it.
        body = json.dumps(asked.model_dump(mode="json")).encode()
        self.assertIn(b'"thread_id"', body)
        with urllib.request.urlopen(f"{URL}/agui", body) as answer:
            frames = [json.loads(line[len("data: ") :]) for line in answer.read().decode().splitlines() if line]
        events = [EVENT.validate_python(frame) for frame in frames]
        # They take keys that they do not know, and give back what they have understood.
        self.assertEqual([event.model_dump(mode="json", by_alias=True) for event in events], frames)
        self.assertEqual([event.model_extra for event in events], [{}] * len(events))
        self.assertEqual((events[0].thread_id, events[0].run_id), (asked.thread_id, asked.run_id))
        return events

    def answer_of(self, events):
        self.assertEqual(events[-1].type, "RUN_FINISHED")
        return "".join(event.delta for event in events if event.type == "TEXT_MESSAGE_CONTENT")

    def test_plain(self):
        events = self.run_agent(say("Hello"), state={"draft": {"title": None}})
        self.assertEqual(events[1].snapshot, {"draft": {"title": None}})
        self.assertRegex(self.answer_of(events), "^I am the scripted demo model")

    def test_a_tool_and_its_result(self):
        question = say("call locate {}")
        # The server goes on in a thread that it knows, and in one that it has to take from the messages.
        for thread, later in [("one", "one"), ("two", "three")]:
            events = self.run_agent(question, thread=thread)
            [call] = [event for event in events if event.type == "TOOL_CALL_START"]
            function = FunctionCall(name=call.tool_call_name, arguments="{}")
            made = AssistantMessage(
                id=call.parent_message_id, tool_calls=[ToolCall(id=call.tool_call_id, function=function)]
            )
            result = ToolMessage(id="result", tool_call_id=call.tool_call_id, content="Bergen")
            events = self.run_agent(question, made, result, thread=later)
            self.assertEqual(self.answer_of(events), "The tool `locate` answered: Bergen")

    def test_a_tool_of_the_server(self):
        events = self.run_agent(say("call list_tools {}"))
        [result] = [event for event in events if event.type == "TOOL_CALL_RESULT"]
        self.assertEqual(self.answer_of(events), f"The tool `list_tools` answered: {result.content}")

    def test_an_interrupt(self):
        more = {"thread": "allowed", "forwarded_props": {"clientID": "laptop"}}
        events = self.run_agent(say('call greet {"name": "Ada"}'), **more)
        [interrupt] = events[-1].outcome.interrupts
        resume = [ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload={"approved": True})]
        events = self.run_agent(resume=resume, **more)
        self.assertEqual(self.answer_of(events), "The tool `greet` answered: Hello, Ada!")

    def test_an_error(self):
        events = self.run_agent(say("Hello"), forwarded_props={"model": "demo/unscripted"})
        self.assertEqual((events[-1].type, events[-1].code), ("RUN_ERROR", "provider_error"))


if __name__ == "__main__":
    unittest.main()
