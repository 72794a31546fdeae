//! What is found in arguments, and what passes.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn faults(schema: &Value, value: &Value) -> Vec<String> {
    check(schema, value).faults
}

#[test]
fn what_is_missing_unknown_or_of_another_type_is_named_with_its_place() {
    let schema = json!({
        "type": "object",
        "required": ["text", "deep"],
        "additionalProperties": false,
        "properties": {
            "text": {"type": "string"},
            "count": {"type": "integer"},
            "deep": {"$ref": "#/$defs/Deep"},
        },
        "$defs": {"Deep": {"type": "object", "required": ["a"], "properties": {
            "a": {"type": "array"}, "next": {"$ref": "#/$defs/Deep"}}}},
    });
    let deep = json!({"a": [1, 2.0], "next": {"a": []}});
    assert!(faults(&schema, &json!({"text": "x", "count": 1.0, "deep": deep})).is_empty());
    assert_eq!(
        faults(&schema, &json!({"txet": 1, "count": 1.5, "deep": {"a": 1, "next": {}}})),
        [
            "text: missing",
            "count: expected integer, got 1.5",
            "deep.a: expected array, got 1",
            "deep.next.a: missing",
            "txet: unknown; did you mean 'text'?",
        ]
    );
    assert_eq!(faults(&schema, &json!([])), ["expected object, got []"]);
}

#[test]
fn a_choice_is_one_of_those_that_there_are() {
    let schema = json!({"properties": {"size": {"enum": ["a", 1]}, "any": {"anyOf": [
        {"type": "string"}, {"type": "null"}]}}});
    assert_eq!(
        faults(&schema, &json!({"size": "b", "any": 5})),
        ["any: expected string or null, got 5", r#"size: expected one of "a", 1, got "b""#]
    );
    assert!(faults(&schema, &json!({"size": 1.0, "any": null})).is_empty());
    let schema = json!({"properties": {"c": {"const": 3}}});
    assert_eq!(faults(&schema, &json!({"c": 4})), ["c: expected one of 3, got 4"]);
}

#[test]
fn names_that_a_schema_does_not_exclude_are_found_apart() {
    let open = |extra: Value| {
        let mut schema = json!({"properties": {"name": {"type": "string"}}});
        schema.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let found = check(&schema, &json!({"nme": "x"}));
        assert!(found.faults.is_empty(), "{schema}");
        found.unknown
    };
    assert_eq!(open(json!({})), ["'nme'; did you mean 'name'?"]);
    for extra in [
        json!({"additionalProperties": true}),
        json!({"additionalProperties": {}}),
        json!({"patternProperties": {"^x": {}}, "additionalProperties": false}),
        json!({"anyOf": []}),
        json!({"properties": {}}),
    ] {
        assert!(open(extra.clone()).is_empty(), "{extra}");
    }
}

#[test]
fn what_it_does_not_know_passes() {
    for schema in [
        json!(null),
        json!(true),
        json!({"type": "file"}),
        json!({"pattern": "^a$"}),
        json!({"not": {}}),
        json!({"$ref": "https://example.com/schema"}),
        json!({"$defs": {"Loop": {"$ref": "#/$defs/Loop"}}, "$ref": "#/$defs/Loop"}),
        json!({"minimum": "1", "enum": 5, "required": 5, "properties": []}),
    ] {
        assert!(faults(&schema, &json!({"x-a": 1})).is_empty(), "{schema}");
        assert!(faults(&schema, &json!("b")).is_empty(), "{schema}");
    }
}

#[test]
fn types_are_found_behind_references_and_choices() {
    let root = json!({"$defs": {"C": {"enum": ["red", 1]}}});
    let of = |schema: Value| types(&schema, &root).join(",");
    assert_eq!(of(json!({"$ref": "#/$defs/C"})), "string,integer");
    assert_eq!(of(json!({"anyOf": [{"type": "string"}, {"type": "null"}]})), "string,null");
    assert_eq!(of(json!({"type": ["number", "boolean"]})), "number,boolean");
    assert_eq!(of(json!({"type": "any"})), "", "nobody knows what it allows");
    assert_eq!(of(json!({})), "");
}

#[test]
fn branches_that_refer_to_each_other_are_walked_once() {
    for word in ["anyOf", "oneOf", "allOf"] {
        let twice = json!([{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}, {"type": "integer"}]);
        let schema = json!({"$defs": {"a": {word: twice}}, "$ref": "#/$defs/a"});
        assert_eq!(types(&schema, &schema), ["integer"], "{word}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let words = ["type", "properties", "items", "$ref", "anyOf", "required", "enum", "minimum"];
    let texts = ["string", "object", "#", "#/properties", "#/items", "a", "array"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(texts.to_vec()).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        let name = prop::sample::select(words.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_schema_makes_it_fall_over(schema in any_json(), value in any_json()) {
        prop_assert!(check(&schema, &value).faults.len() <= limits::FAULTS);
        let _ = (types(&schema, &schema), resolved(&schema, &schema));
    }
}
