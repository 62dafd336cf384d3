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
    ];
    for (text, name, arguments) in table {
        assert_eq!(answer_to(text, &house), Said::call(name, arguments), "{text}");
    }
}
