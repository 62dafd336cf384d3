//! What people say, and what comes of it.

use super::*;

const STRING: &str = r#"{"type":"string"}"#;
const NUMBER: &str = r#"{"type":"number"}"#;

/// The tools of somebody who tries it out.
fn house() -> Vec<Offered> {
    vec![
        list_tools(),
        tool_with(
            "get_time",
            "Get the current local time on the client machine",
            &[("timezone", r#"{"type":"string","description":"Timezone (e.g., 'America/New_York')"}"#)],
        ),
        tool_with(
            "open-url",
            "Opens an address in the user's browser",
            &[("url!", r#"{"type":"string","format":"uri"}"#), ("title", STRING), ("timeoutSec", NUMBER)],
        ),
        tool_with(
            "read_file",
            "Read a file from the client's file system",
            &[("path!", r#"{"type":"string","description":"Absolute path to the file"}"#)],
        ),
        tool_with("write_file", "Write a text to a file", &[("path!", STRING), ("content!", STRING)]),
        tool_with(
            "get_weather",
            "The weather in a city",
            &[
                ("city!", STRING),
                ("days", r#"{"type":"integer","minimum":1,"maximum":7}"#),
                ("units", r#"{"enum":["celsius","fahrenheit"]}"#),
            ],
        ),
        tool_with("add", "Adds two numbers", &[("a!", NUMBER), ("b!", NUMBER)]),
        tool_with(
            "set_volume",
            "Sets the volume of the speakers",
            &[("level!", r#"{"type":"integer","minimum":0,"maximum":10}"#)],
        ),
        tool_with("light", "Switches the light in the room", &[("state!", r#"{"type":"string","enum":["on","off"]}"#)]),
        tool("take_screenshot", "Takes a picture of the screen", "{}"),
        tool_with("search", "Searches the web", &[("query!", STRING), ("limit", r#"{"type":"integer"}"#)]),
        tool_with(
            "resizeWindow",
            "Changes the size of the window",
            &[("width!", r#"{"type":"integer"}"#), ("height!", r#"{"type":"integer"}"#)],
        ),
        tool_with("translate", "Translates a text", &[("text!", STRING), ("language!", STRING)]),
        tool_with(
            "send_email",
            "Sends an email",
            &[("to!", r#"{"type":"string","format":"email"}"#), ("subject", STRING), ("body!", STRING)],
        ),
        tool_with(
            "query_database",
            "Execute a read-only SQL query on the local database",
            &[("query!", r#"{"type":"string","description":"SQL SELECT query to execute"}"#)],
        ),
    ]
}

#[test]
fn what_people_say_becomes_the_call_that_they_mean() {
    let house = house();
    let table = [
        ("what time is it?", "get_time", "{}"),
        ("What time is it locally?", "get_time", "{}"),
        ("what's the time in Europe/Paris?", "get_time", r#"{"timezone":"Europe/Paris"}"#),
        ("open https://example.com", "open-url", r#"{"url":"https://example.com"}"#),
        ("Please open www.example.com.", "open-url", r#"{"url":"https://www.example.com"}"#),
        (
            "open https://example.com/a?b=c,d with the title \"An example\"",
            "open-url",
            r#"{"url":"https://example.com/a?b=c,d","title":"An example"}"#,
        ),
        ("read the file \"notes.txt\"", "read_file", r#"{"path":"notes.txt"}"#),
        ("read ./src/main.rs", "read_file", r#"{"path":"./src/main.rs"}"#),
        ("Can you read /etc/hosts for me?", "read_file", r#"{"path":"/etc/hosts"}"#),
        ("write \"hello\" to the file \"a.txt\"", "write_file", r#"{"path":"a.txt","content":"hello"}"#),
        ("what's the weather in Paris?", "get_weather", r#"{"city":"Paris"}"#),
        ("What’s the weather in New York tomorrow?", "get_weather", r#"{"city":"New York"}"#),
        ("weather for 'Rio de Janeiro'", "get_weather", r#"{"city":"Rio de Janeiro"}"#),
        ("weather in paris please", "get_weather", r#"{"city":"paris"}"#),
        ("weather paris", "get_weather", r#"{"city":"paris"}"#),
        (
            "How is the weather in Oslo for the next 3 days in Fahrenheit?",
            "get_weather",
            r#"{"city":"Oslo","days":3,"units":"fahrenheit"}"#,
        ),
        ("city: Berlin, weather please", "get_weather", r#"{"city":"Berlin"}"#),
        ("add 2 and 3", "add", r#"{"a":2,"b":3}"#),
        ("add -1.5 and 1,000", "add", r#"{"a":-1.5,"b":1000}"#),
        ("add two and three", "add", r#"{"a":2,"b":3}"#),
        ("Add b=5 and a=7", "add", r#"{"a":7,"b":5}"#),
        ("set the volume to 7", "set_volume", r#"{"level":7}"#),
        ("volume 70% or rather 8", "set_volume", r#"{"level":8}"#),
        ("turn the light on", "light", r#"{"state":"on"}"#),
        ("Turn OFF the light!", "light", r#"{"state":"off"}"#),
        ("take a screenshot", "take_screenshot", "{}"),
        ("search for 'rust async'", "search", r#"{"query":"rust async"}"#),
        ("search for rust async", "search", r#"{"query":"rust async"}"#),
        ("please search the web for “rust async”, limit 5", "search", r#"{"query":"rust async","limit":5}"#),
        ("resize the window to 800x600", "resizeWindow", r#"{"width":800,"height":600}"#),
        ("resize the window: height 600, width 800", "resizeWindow", r#"{"width":800,"height":600}"#),
        ("translate good morning to French", "translate", r#"{"text":"good morning","language":"French"}"#),
        (
            "send an email to bob@example.com saying I am late",
            "send_email",
            r#"{"to":"bob@example.com","body":"I am late"}"#,
        ),
        ("query the database: select (1) from t", "query_database", r#"{"query":"select (1) from t"}"#),
        ("get_weather Paris", "get_weather", r#"{"city":"Paris"}"#),
        ("search the web for rust async", "search", r#"{"query":"rust async"}"#),
        ("search web frameworks", "search", r#"{"query":"web frameworks"}"#),
        ("what is on the screen? take a picture", "take_screenshot", "{}"),
    ];
    for (text, name, arguments) in table {
        assert_eq!(answer_to(text, &house), Said::call(name, arguments), "{text}");
    }
}

/// A tool's name, its parameters, what the user says, and what is expected.
type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, &'a str);

/// A tool with such parameters, alone, and what becomes of it: arguments, or what is missing.
fn alone(name: &str, properties: &[(&str, &str)], text: &str) -> Result<String, String> {
    let mut said = answer_to(text, &[list_tools(), tool_with(name, "", properties)]);
    match said.calls.pop() {
        Some((_, called, arguments)) => {
            assert_eq!(called, format!("client_laptop_{name}"));
            Ok(arguments)
        }
        None => {
            let ask = format!("I would call `{name}`, but I do not see in your message what to use for ");
            let how = format!(". Tell me, or make the call yourself with a line like `call {name} {{…}}`.");
            let missing = said.text.strip_prefix(&ask).and_then(|text| text.strip_suffix(&how));
            Err(missing.unwrap_or(&said.text).to_owned())
        }
    }
}

#[test]
fn parameters_are_filled_by_their_schema() {
    let boolean = r#"{"type":"boolean"}"#;
    let strings = r#"{"type":"array","items":{"type":"string"}}"#;
    let numbers = r#"{"type":"array","items":{"type":"number"},"minItems":2}"#;
    let table: &[Row<'_>] = &[
        // Texts: named, in quotes, after a preposition, what is left.
        ("greet", &[("name!", STRING)], "Greet Ada Lovelace, please", r#"{"name":"Ada Lovelace"}"#),
        ("greet", &[("name!", STRING)], "greet everybody", r#"{"name":"everybody"}"#),
        ("echo", &[("text!", STRING)], "echo hello", r#"{"text":"hello"}"#),
        ("echo", &[("text!", STRING)], "Echo: what time is it?", r#"{"text":"what time is it"}"#),
        ("echo", &[("text!", STRING)], "echo \"a\" and 'b'", r#"{"text":"a"}"#),
        ("echo", &[("text!", STRING)], "echo «don't \"panic\"»", r#"{"text":"don't \"panic\""}"#),
        ("echo", &[("text!", "{}")], "echo 7", r#"{"text":7}"#),
        ("echo", &[("text!", "true")], "echo this text", r#"{"text":"this text"}"#),
        ("calculate", &[("expression!", STRING)], "calculate (2 + 3) * 4", r#"{"expression":"(2 + 3) * 4"}"#),
        ("copy", &[("text!", STRING)], "please hello world copy", r#"{"text":"hello world"}"#),
        (
            "note",
            &[("title!", STRING), ("body!", STRING)],
            "note title: Buy milk, body: two litres",
            r#"{"title":"Buy milk","body":"two litres"}"#,
        ),
        (
            "note",
            &[("title!", STRING), ("body!", STRING)],
            "note body \"B\" title \"T\"",
            r#"{"title":"T","body":"B"}"#,
        ),
        ("note", &[("title!", STRING), ("body", STRING)], "note 'one' and 'two'", r#"{"title":"one","body":"two"}"#),
        (
            "fly",
            &[("origin!", STRING), ("destination!", STRING)],
            "fly to Rome from New York",
            r#"{"origin":"New York","destination":"Rome"}"#,
        ),
        ("weather", &[("city", STRING), ("country", STRING)], "weather in Rome on Monday", r#"{"city":"Rome"}"#),
        (
            "mail",
            &[("to!", STRING), ("text!", STRING)],
            "mail \"Hi\" to bob@example.com",
            r#"{"to":"bob@example.com","text":"Hi"}"#,
        ),
        ("visit", &[("url!", STRING)], "visit <http://example.com/a_(b)>!", r#"{"url":"http://example.com/a_(b)"}"#),
        (
            "visit",
            &[("page!", r#"{"type":"string","format":"uri"}"#)],
            "visit \"https://example.com\"",
            r#"{"page":"https://example.com"}"#,
        ),
        (
            "report",
            &[("day!", r#"{"type":"string","format":"date"}"#)],
            "report for 2026-01-31T10:00:00Z",
            r#"{"day":"2026-01-31"}"#,
        ),
        (
            "report",
            &[("at!", r#"{"type":"string","format":"date-time"}"#)],
            "report for 2026-01-31.",
            r#"{"at":"2026-01-31T00:00:00Z"}"#,
        ),
        ("clock", &[("timezone!", STRING)], "clock in Tokyo", r#"{"timezone":"Tokyo"}"#),
        ("clock", &[("timezone", STRING)], "clock in Tokyo", "{}"),
        ("clock", &[("timezone", STRING)], "clock in UTC", r#"{"timezone":"UTC"}"#),
        // Numbers: named, in order, within their range, whole where they must be.
        ("pay", &[("amount!", NUMBER)], "pay $12.50", r#"{"amount":12.5}"#),
        ("pay", &[("amount!", NUMBER)], "pay 12345678901234567890", r#"{"amount":12345678901234567890}"#),
        (
            "wait",
            &[("seconds!", r#"{"type":["null","integer"],"minimum":1}"#)],
            "wait 0 or 1.5 or 2.0 seconds",
            r#"{"seconds":2}"#,
        ),
        ("wait", &[("seconds", NUMBER)], "wait 5", r#"{"seconds":5}"#),
        ("wait", &[("seconds", NUMBER), ("reason", STRING)], "wait 5", "{}"),
        ("wait", &[("seconds", NUMBER), ("reason", STRING)], "wait 5 seconds", r#"{"seconds":5}"#),
        ("sum", &[("numbers!", numbers)], "sum up 1, 2 and 3.5", r#"{"numbers":[1,2,3.5]}"#),
        // Enumerations: in any case, of several words, signs, numbers; one that is named goes first.
        ("theme", &[("kind!", r#"{"enum":["Light","Dark Mode"]}"#)], "theme dark mode", r#"{"kind":"Dark Mode"}"#),
        ("theme", &[("kind!", r#"{"enum":["dark_mode"]}"#)], "theme", r#"{"kind":"dark_mode"}"#),
        ("light_mode", &[("mode!", r#"{"enum":["light","dark"]}"#)], "light mode to dark", r#"{"mode":"dark"}"#),
        (
            "compute",
            &[("a!", NUMBER), ("op!", r#"{"enum":["+","-"]}"#), ("b!", NUMBER)],
            "compute 2 - 3",
            r#"{"a":2,"op":"-","b":3}"#,
        ),
        ("gear", &[("number!", r#"{"enum":[1,2,3]}"#)], "gear 2", r#"{"number":2}"#),
        (
            "convert",
            &[("from!", r#"{"enum":["cm","inch"]}"#), ("to!", r#"{"enum":["cm","inch"]}"#)],
            "convert to inches from cm",
            r#"{"from":"cm","to":"inch"}"#,
        ),
        (
            "paint",
            &[("colors!", r#"{"type":"array","items":{"enum":["red","green"]}}"#)],
            "paint it green and red",
            r#"{"colors":["green","red"]}"#,
        ),
        // Switches.
        ("lamp", &[("on!", boolean)], "lamp on", r#"{"on":true}"#),
        ("lamp", &[("on!", boolean)], "turn the lamp off", r#"{"on":false}"#),
        ("lamp", &[("blink", boolean)], "lamp off", "{}"),
        ("files", &[("recursive", boolean)], "files, recursively", r#"{"recursive":true}"#),
        ("files", &[("recursive", boolean)], "files, not recursive", r#"{"recursive":false}"#),
        // Lists.
        (
            "invite",
            &[("guests!", strings)],
            "invite Ada, Bob and Carol Smith",
            r#"{"guests":["Ada","Bob","Carol Smith"]}"#,
        ),
        (
            "tag",
            &[("file!", STRING), ("tags!", strings)],
            "tag a.txt with 'x' and 'y'",
            r#"{"file":"a.txt","tags":["x","y"]}"#,
        ),
        ("tag", &[("file!", STRING), ("tags", strings)], "tag a.txt", r#"{"file":"a.txt"}"#),
        // What must be there and can be nothing else.
        ("go", &[("speed!", r#"{"type":"integer","default":3}"#)], "go", r#"{"speed":3}"#),
        (
            "go",
            &[
                ("kind!", r#"{"const":"car"}"#),
                ("nothing!", r#"{"type":"null"}"#),
                ("options!", r#"{"type":"object"}"#),
            ],
            "go",
            r#"{"kind":"car","nothing":null,"options":{}}"#,
        ),
        // Written out.
        ("greet", &[("name!", STRING)], "Please greet with {\"name\": \"Ada\" }!", r#"{"name": "Ada" }"#),
        ("greet", &[("name!", STRING)], "call greet with {\"name\":\"Ada\"}", r#"{"name":"Ada"}"#),
        ("greet", &[("name!", STRING)], "greet {} {name} {\"x\":1} {\"name\":7}", r#"{"name":7}"#),
        ("words", &[], "words {\"text\": [\"one two\"]}", r#"{"text": ["one two"]}"#),
        ("words", &[], "words {\"text\": oops}", "{}"),
        // Behind alternatives.
        (
            "wait",
            &[("seconds!", r#"{"anyOf":[{"type":"null"},{"type":"integer","minimum":4}],"description":"How long"}"#)],
            "wait 3 or 4",
            r#"{"seconds":4}"#,
        ),
    ];
    for (name, properties, text, expected) in table {
        assert_eq!(alone(name, properties, text), Ok((*expected).to_owned()), "{text}");
    }
}

#[test]
fn references_are_followed_within_the_schema() {
    let schema = r##"{"$ref":"#/definitions/input","definitions":{"input":{"type":"object","required":["unit"],
        "properties":{"unit":{"$ref":"#/$defs/unit"},"again":{"$ref":"#/$defs/again"}}}},
        "$defs":{"unit":{"$ref":"#/$defs/choices"},"choices":{"type":"string","enum":["C","F"]},
        "again":{"$ref":"#/$defs/again"}}}"##;
    let tools = [tool("measure", "", schema)];
    assert_eq!(answer_to("measure in F", &tools), Said::call("measure", r#"{"unit":"F"}"#));
}

#[test]
fn what_can_not_be_filled_is_asked_for() {
    let table: &[Row<'_>] = &[
        (
            "volume",
            &[("level!", r#"{"type":"integer","minimum":0,"maximum":10}"#)],
            "set the volume",
            "`level` (a whole number from 0 to 10)",
        ),
        (
            "volume",
            &[("level!", r#"{"type":"integer","minimum":0}"#)],
            "set the volume to -1",
            "`level` (a whole number from 0)",
        ),
        (
            "volume",
            &[("level!", r#"{"type":"number","maximum":10}"#)],
            "set the volume to 11",
            "`level` (a number up to 10)",
        ),
        ("light", &[("state!", r#"{"enum":["on","off",3]}"#)], "light", "`state` (one of \"on\", \"off\", 3)"),
        (
            "light",
            &[("state!", r#"{"enum":[1,2,3,4,5,6,7,8,9]}"#)],
            "light",
            "`state` (one of 1, 2, 3, 4, 5, 6, 7, 8, …)",
        ),
        (
            "open",
            &[("url!", STRING), ("wait!", r#"{"type":"boolean"}"#)],
            "open the door",
            "`url` (a URL), `wait` (true or false)",
        ),
        ("weather", &[("city!", STRING)], "how is the weather today?", "`city` (a text)"),
        ("read", &[("path!", STRING)], "read it", "`path` (a path)"),
        ("mail", &[("email!", STRING), ("text!", STRING)], "mail 'x' to Bob", "`email` (an email address)"),
        (
            "report",
            &[("day!", r#"{"type":"string","format":"date"}"#)],
            "report for tomorrow",
            "`day` (a date like 2026-01-31)",
        ),
        (
            "report",
            &[("at!", r#"{"type":"string","format":"date-time"}"#)],
            "report for now",
            "`at` (a time like 2026-01-31T12:00:00Z)",
        ),
        ("sum", &[("numbers!", r#"{"type":"array","items":{"type":"number"}}"#)], "sum it up", "`numbers` (a list)"),
        ("save", &[("entry!", r#"{"type":"object","required":["a"]}"#)], "save it", "`entry` (a value)"),
    ];
    for (name, properties, text, expected) in table {
        assert_eq!(alone(name, properties, text), Err((*expected).to_owned()), "{text}");
    }
}

#[test]
fn tools_that_do_not_fit_are_not_called() {
    let house = house();
    for text in
        ["hello", "hello there, how are you?", "what's your name?", "tell me a joke", "I feel tired", "42", "\"add\""]
    {
        let said = answer_to(text, &house);
        assert!(said.text.starts_with("I am the scripted demo model."), "{text}: {said:?}");
    }
}

#[test]
fn the_tools_are_listed_for_who_asks_for_them_and_only_then() {
    let house = house();
    for text in [
        "list the tools",
        "List all tools.",
        "which tools are there?",
        "What tools do you have?",
        "show me all available tools",
        "use list_tools",
    ] {
        assert_eq!(answer_to(text, &house), Said::calls(&[("list_tools", "{}")]), "{text}");
    }
    for text in [
        "use the search tool for 'x'",
        "discover the weather in Paris",
        "list names, descriptions and parameters",
        "list",
        "the tool",
    ] {
        let called = answer_to(text, &house).calls.pop().map(|(_, name, _)| name);
        assert_ne!(called.as_deref(), Some("list_tools"), "{text}");
    }
    // A client's own tool of that name is a tool like any other.
    let own = [tool("list_tools", "Lists the tools in the shed", "{}")];
    assert_eq!(answer_to("what is in the shed?", &own), Said::call("list_tools", "{}"));
}

#[test]
fn of_several_tools_the_best_is_called_and_of_equals_the_first() {
    let text = |name: &str, description: &str| tool_with(name, description, &[("text", STRING)]);
    let cases: &[(&[Offered], &str, &str)] = &[
        (&[text("file_read", ""), text("file_write", "")], "write a file", "file_write"),
        (&[text("x_note", ""), text("y_note", "")], "take a note", "x_note"),
        (&[text("y_note", ""), text("x_note", "")], "take a note", "y_note"),
        // Words of the name count more than those of the description.
        (&[text("other", "Plays music and songs"), text("music", "")], "music", "music"),
        // A description will do where no name fits.
        (&[text("x1", "Takes a photo"), text("x2", "Plays a song")], "play a song", "x2"),
        (&[text("get_light", ""), text("set_light", "")], "set the light", "set_light"),
        (&[text("turn_off_light", ""), text("turn_on_light", "")], "turn the light on", "turn_on_light"),
        // A name that is written as it is needs no words that say something.
        (&[text("my_tool", ""), text("the_tool", "")], "use the_tool", "the_tool"),
        // What can be called is better than what can not.
        (&[tool_with("add", "", &[("a!", NUMBER)]), text("add_todo", "")], "add 'milk'", "add_todo"),
    ];
    for (tools, text, expected) in cases {
        let called = answer_to(text, tools).calls.pop().map(|(_, name, _)| name);
        assert_eq!(called, Some(format!("client_laptop_{expected}")), "{text}");
    }
}

#[test]
fn forms_of_a_word_are_one_word() {
    for (name, words) in [
        ("file", &["files", "File", "file's", "FILES"][..]),
        ("open", &["opens", "opening", "opened"]),
        ("takePhoto", &["takes a photo", "taking photos"]),
        ("add_note", &["adds notes", "adding a note", "add-note", "add_note"]),
        ("search", &["searches", "searching"]),
        ("query", &["queries"]),
        ("address", &["addresses"]),
    ] {
        for text in words {
            assert_eq!(answer_to(text, &[tool(name, "", "{}")]), Said::call(name, "{}"), "{text}");
        }
    }
    for (name, text) in [("on", "off"), ("light", "list"), ("red", "read"), ("note", "nothing"), ("ring", "r")] {
        assert_eq!(answer_to(text, &[tool(name, "", "{}")]).calls, [], "{text}");
    }
}
