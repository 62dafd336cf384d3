"""A program on the client that openapi-python-client makes of the description: it registers a tool, has another one
called, and has a turn. `clients.test.js` makes the client and runs this."""

import os

from generated import AuthenticatedClient
from generated.api.client_tools import client_tools_execute, client_tools_list_tools_of, client_tools_register
from generated.api.sessions import sessions_create, sessions_prompt
from generated.models import CreateSession, ExecuteRequest, Prompt, RegisterRequest, Tool

client = AuthenticatedClient(os.environ["HANDBACK_URL"], os.environ["HANDBACK_KEY"], raise_on_unexpected_status=True)

parameters = {"type": "object", "properties": {"text": {"type": "string"}}}
note = {"id": "note", "description": "Notes something", "effect": "write", "parameters": parameters}
request = RegisterRequest(client_id="program", tools=[Tool.from_dict(note)])
registered = client_tools_register.sync(client=client, body=request)
assert registered.registered == ["client_program_note"], registered
[listed] = client_tools_list_tools_of.sync("program", client=client)
assert listed.parameters.to_dict() == parameters, listed

request = ExecuteRequest.from_dict({"toolID": "client_laptop_greet", "input": {"name": "Ada"}})
result = client_tools_execute.sync(client=client, body=request)
assert (result.status, result.output) == ("success", "Hello, Ada!"), result

session = sessions_create.sync(client=client, body=CreateSession(client_id="laptop", title="Generated"))
prompt = Prompt.from_dict({"parts": [{"type": "text", "text": 'call greet {"name": "Ada"}'}]})
answer = sessions_prompt.sync(session.id, client=client, body=prompt)
texts = [part.text for part in answer.parts if part.type_ == "text"]
assert texts == ["The tool `greet` answered: Hello, Ada!"], answer

# An error is a value of its own, as described.
unknown = client_tools_execute.sync(client=client, body=ExecuteRequest(tool_id="client_nobody_nothing"))
assert unknown.code == "NOT_FOUND", unknown
