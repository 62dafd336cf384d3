//! The OpenAPI document: what the routes declare, completed with what holds for all of them.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBody;
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems, SchemaType, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, Content, ContentBuilder, Object, OpenApi as Description, PathItem, Ref, RefOr, Required, Response,
    ResponseBuilder, Schema,
};

use super::agui::PROTOBUF;
use crate::gate::OPEN;
use crate::problem::{ErrorShape, ErrorShapes};

/// The name of the security scheme.
const KEY: &str = "key";
const STREAMS: [&str; 2] = ["text/event-stream", PROTOBUF];

/// The pattern of ids that clients choose: printable characters, up to a length.
const OPAQUE: &str = r"^[^\u0000-\u001f\u007f-\u009f]{1,256}$";
/// The patterns of ids, by the name of the parameter or of the member of a request.
const IDS: [(&str, &str); 9] = [
    ("clientID", "^[A-Za-z0-9_.:@-]{1,128}$"),
    ("sessionID", OPAQUE),
    ("requestID", OPAQUE),
    ("permissionID", OPAQUE),
    ("thread", OPAQUE),
    ("run", OPAQUE),
    ("threadId", OPAQUE),
    ("parentID", OPAQUE),
    ("toolCallId", OPAQUE),
];

/// The thing that each path parameter names.
const NAMED: [(&str, &str); 9] = [
    ("agent", "agent"),
    ("clientID", "client"),
    ("id", "chat"),
    ("permissionID", "ask"),
    ("requestID", "call"),
    ("room", "room"),
    ("run", "run"),
    ("sessionID", "session"),
    ("thread", "thread"),
];

/// Clients and chats need not exist before they are named. Anything else that is unknown is answered 404.
const MAY_BE_UNKNOWN: [&str; 2] = ["client", "chat"];

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Handback",
        description = "Tools that run on the client: register them, connect, run calls, send results back."
    ),
    // Error bodies and stream frames: operations with streams declare only that their answer is text.
    components(schemas(
        handback_wire::error::ErrorBody,
        handback_wire::event::Event,
        handback_wire::client_tools::ToolRequest,
        handback_wire::threads::Detail
    ))
)]
struct Document;

/// The document before the routes are added.
pub(crate) fn begun() -> Description {
    Document::openapi()
}

/// Adds what holds for all operations, unless an operation declares it itself.
pub(crate) fn completed(mut description: Description, errors: &ErrorShapes) -> Description {
    let mut requests = BTreeSet::new();
    for (path, item) in &mut description.paths.paths {
        for operation in operations(item) {
            complete(path, errors.at(path), operation);
            requests.extend(operation.request_body.iter().flat_map(schemas));
        }
    }
    let components = description.components.get_or_insert_with(Components::new);
    let scheme = Http::builder()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An application key, or a client's token. A server without keys wants none."))
        .build();
    components.add_security_scheme(KEY, SecurityScheme::Http(scheme));
    for (_, schema) in components.schemas.iter_mut().filter(|(name, _)| requests.contains(*name)) {
        let RefOr::T(Schema::Object(request)) = schema else { continue };
        for (name, schema) in &mut request.properties {
            describe_id(name, schema);
            // A required member has a default only in the code, for a better error message.
            match schema {
                RefOr::T(Schema::Object(member)) if request.required.contains(name) => member.default = None,
                RefOr::T(Schema::Array(member)) if request.required.contains(name) => member.default = None,
                _ => {}
            }
        }
    }
    name_compositions(components);
    components.schemas.values_mut().for_each(open);
    description
}

/// Names the alternatives of each choice, because code generators have no names for them.
fn name_compositions(components: &mut Components) {
    let mut named = Vec::new();
    for (name, schema) in &mut components.schemas {
        let RefOr::T(Schema::OneOf(choice)) = schema else { continue };
        for item in &mut choice.items {
            let RefOr::T(Schema::AllOf(parts)) = item else { continue };
            let first = parts.items.iter().find_map(|part| match part {
                RefOr::Ref(part) => part.ref_location.rsplit('/').next(),
                RefOr::T(_) => None,
            });
            let name = format!("{name}{}", first.unwrap_or_default());
            let composition = std::mem::replace(item, Ref::from_schema_name(&name).into());
            named.push((name, composition));
        }
    }
    components.schemas.extend(named);
}

/// The names of the schemas that a body refers to.
fn schemas(body: &RefOr<RequestBody>) -> Vec<String> {
    let RefOr::T(body) = body else { return Vec::new() };
    let name = |content: &RefOr<Content>| match content {
        RefOr::T(Content { schema: Some(RefOr::Ref(schema)), .. }) => {
            schema.ref_location.rsplit('/').next().map(str::to_owned)
        }
        _ => None,
    };
    body.content.values().filter_map(name).collect()
}

/// Removes `null` from the schema of an optional body: the body may be absent, but not null.
fn leave_out_null(schema: &mut RefOr<Schema>) {
    let RefOr::T(Schema::OneOf(choice)) = schema else { return };
    let is_ref = |item: &RefOr<Schema>| matches!(item, RefOr::Ref(_));
    if let Some(place) = choice.items.iter().position(is_ref) {
        *schema = choice.items.swap_remove(place);
    }
}

/// Marks objects without declared members as free-form, because code generators take them for empty objects.
fn open(schema: &mut RefOr<Schema>) {
    let RefOr::T(schema) = schema else { return };
    match schema {
        Schema::Object(object) => {
            let is_object = match &object.schema_type {
                SchemaType::Type(kind) => *kind == Type::Object,
                SchemaType::Array(kinds) => kinds.contains(&Type::Object),
                SchemaType::AnyValue => false,
            };
            object.properties.values_mut().for_each(open);
            match object.additional_properties.as_deref_mut() {
                Some(AdditionalProperties::RefOr(values)) => open(values),
                None if is_object && object.properties.is_empty() => {
                    object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(true)));
                }
                Some(AdditionalProperties::FreeForm(_)) | None => {}
            }
        }
        Schema::Array(array) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                open(items);
            }
        }
        Schema::OneOf(choice) => choice.items.iter_mut().for_each(open),
        Schema::AllOf(parts) => parts.items.iter_mut().for_each(open),
        Schema::AnyOf(choice) => choice.items.iter_mut().for_each(open),
        _ => {}
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.delete, &mut item.patch].into_iter().flatten()
}

fn complete(path: &str, shape: ErrorShape, operation: &mut Operation) {
    // Generated clients name their functions after this id, and routes of two APIs may have the same name.
    let tag = operation.tags.iter().flatten().next().map_or("", String::as_str).replace([' ', '-'], "_");
    operation.operation_id = operation.operation_id.take().map(|name| format!("{tag}_{name}"));
    let in_path = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let named: Vec<_> = in_path.filter_map(|name| NAMED.iter().find(|(known, _)| *known == name)).collect();
    let parameters = named.iter().map(|(name, thing)| {
        let text = Object::with_type(Type::String);
        let parameter = ParameterBuilder::new().name(*name).parameter_in(ParameterIn::Path).required(Required::True);
        parameter.description(Some(format!("The {thing}"))).schema(Some(text)).build().into()
    });
    let others = operation.parameters.take().into_iter().flatten();
    operation.parameters = Some(parameters.chain(others).collect()).filter(|all: &Vec<_>| !all.is_empty());
    let missing = named.last().filter(|(_, thing)| !MAY_BE_UNKNOWN.contains(thing));
    let no_such = missing.map(|(_, thing)| format!("No such {thing}")).unwrap_or_default();
    let mut takes_something = false;
    for parameter in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = parameter else { continue };
        takes_something |= parameter.parameter_in != ParameterIn::Header;
        if let Some(schema) = &mut parameter.schema {
            describe_id(&parameter.name, schema);
        }
    }
    let has_body = operation.request_body.is_some();
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        for content in body.content.values_mut() {
            if let RefOr::T(Content { schema: Some(schema), .. }) = content {
                leave_out_null(schema);
            }
        }
    }
    let is_open = OPEN.contains(&path);
    operation.security = Some(if is_open { Vec::new() } else { vec![SecurityRequirement::new(KEY, [""; 0])] });
    let errors = [
        (400, "Something in the request is not as it should be", takes_something || has_body),
        (401, "No key or token, or one that is not good", !is_open),
        (403, "Not with this token, or not from this page or host", true),
        (404, &no_such, missing.is_some()),
        (413, "The request is larger than the server takes", has_body),
        (503, "The server is starting, stopping or overloaded; `Retry-After` says when to come back", !is_open),
    ];
    for (status, description, applies) in errors {
        if applies {
            let error = || RefOr::T(error(shape, description));
            operation.responses.responses.entry(status.to_string()).or_insert_with(error);
        }
    }
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        if response.description.is_empty() {
            let status = status.parse().ok().and_then(|status| StatusCode::from_u16(status).ok());
            response.description = status.and_then(|status| status.canonical_reason()).unwrap_or("Done").to_owned();
        }
        // OpenAPI cannot describe the frames of a stream.
        for (_, content) in response.content.iter_mut().filter(|(kind, _)| STREAMS.contains(&kind.as_str())) {
            *content = RefOr::T(ContentBuilder::new().build());
        }
        for content in response.content.values_mut() {
            if let RefOr::T(Content { schema: Some(schema), .. }) = content {
                open(schema);
            }
        }
        // An error without its own body has the error shape of its API.
        if status.starts_with(['4', '5']) && response.content.is_empty() {
            response.content = error(shape, "").content;
        }
    }
}

fn error(shape: ErrorShape, description: &str) -> Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(shape.schema))).build();
    ResponseBuilder::new().description(description).content("application/json", content).build()
}

/// Adds the pattern to a schema if its name is that of an id.
fn describe_id(name: &str, schema: &mut RefOr<Schema>) {
    let known = IDS.iter().find(|(id, _)| *id == name);
    if let (Some((_, pattern)), RefOr::T(Schema::Object(object))) = (known, schema) {
        object.pattern = Some((*pattern).to_owned());
    }
}
