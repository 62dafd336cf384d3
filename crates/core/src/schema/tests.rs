use super::*;

fn compile(text: &str) -> Result<Schema, SchemaError> {
    Schema::compile(&raw(text), &Limits::default())
}

fn check(schema: &str, input: &str) -> Result<(), String> {
    compile(schema).unwrap().check(&raw(input), &Limits::default()).map_err(|error| error.to_string())
}

#[test]
fn endless() {
    for s in [
        r##"{"$ref":"#"}"##,
        r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}"##,
        r##"{"anyOf":[{"$ref":"#"},{"type":"string"}]}"##,
    ] {
        println!("{s} {:?}", compile(s).is_ok());
        println!("{:?}", check(s, "{}"));
    }
}
