//! What the checker finds, and what it lets pass.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn faults(schema: &Value, value: &Value) -> Vec<String> {
    check(schema, value).iter().map(Fault::to_string).collect()
}

#[test]
fn what_is_missing_unknown_or_of_another_type_is_named_with_its_place() {
    let schema = json!({
        "type": "object",
        "required": ["text", "deep"],
        "additionalProperties": false,
        "properties": {
            "text": {"type": "string"},
            "deep": {"type": "object", "required": ["a"], "properties": {
                "a": {"type": "array", "items": {"type": "integer"}}}},
        },
    });
    assert!(faults(&schema, &json!({"text": "x", "deep": {"a": [1, 2.0], "b": 1}})).is_empty());
    assert_eq!(
        faults(&schema, &json!({"txet": 1, "deep": {"a": [1, "x", 1.5]}})),
        [
            "text is missing",
            "deep.a[1] must be an integer, not \"x\"",
            "deep.a[2] must be an integer, not 1.5",
            "txet is not known; is it text?",
        ]
    );
    assert_eq!(faults(&schema, &json!([])), ["must be an object, not []"]);
}

#[test]
fn values_lengths_and_limits_are_checked() {
    let wrong = |schema: Value, value: Value| faults(&schema, &value);
    assert_eq!(wrong(json!({"enum": ["a", 1]}), json!("b")), [r#"must be one of "a", 1, not "b""#]);
    assert!(wrong(json!({"enum": ["a", 1]}), json!(1.0)).is_empty());
    assert_eq!(wrong(json!({"const": 3}), json!(4)), ["must be 3, not 4"]);
    assert_eq!(wrong(json!({"minimum": 1}), json!(0)), ["must be at least 1, not 0"]);
    assert_eq!(wrong(json!({"maximum": 1}), json!(2)), ["must be at most 1, not 2"]);
    assert_eq!(wrong(json!({"exclusiveMinimum": 1}), json!(1)), ["must be more than 1, not 1"]);
    assert_eq!(wrong(json!({"exclusiveMaximum": 1}), json!(1)), ["must be less than 1, not 1"]);
    assert_eq!(wrong(json!({"multipleOf": 5}), json!(7)), ["must be a multiple of 5, not 7"]);
    assert!(wrong(json!({"multipleOf": 0.1}), json!(0.3)).is_empty());
    assert_eq!(
        wrong(json!({"minLength": 2}), json!("é")),
        ["must have at least 2 characters, not 1"]
    );
    assert_eq!(wrong(json!({"maxItems": 1}), json!([1, 2])), ["must have at most 1 items, not 2"]);
    assert_eq!(
        wrong(json!({"dependentRequired": {"a": ["b"]}}), json!({"a": 1})),
        ["b is missing: it goes with a"]
    );
    assert_eq!(wrong(json!({"properties": {"a": false}}), json!({"a": 1})), ["a is not allowed"]);
}

#[test]
fn references_and_choices_are_followed() {
    let schema = json!({
        "$defs": {
            "Node": {"type": "object", "required": ["v"], "properties": {
                "v": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}}},
            "Loop": {"$ref": "#/$defs/Loop"},
        },
        "properties": {
            "list": {"$ref": "#/$defs/Node"},
            "maybe": {"anyOf": [{"type": "string", "minLength": 3}, {"type": "null"}]},
            "shape": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            "both": {"allOf": [{"minimum": 1}, {"maximum": 2}]},
            "loop": {"$ref": "#/$defs/Loop"},
            "gone": {"$ref": "#/nowhere"},
            "far": {"$ref": "https://example.com/schema"},
        },
    });
    let wrong = |value: Value| faults(&schema, &value);
    assert!(
        wrong(json!({"list": {"v": 1, "next": {"v": 2}}, "maybe": null, "shape": {"b": 1},
        "both": 2, "loop": 1, "gone": 1, "far": 1}))
        .is_empty()
    );
    assert_eq!(
        wrong(json!({"list": {"v": 1, "next": {"v": "x"}}})),
        ["list.next.v must be an integer, not \"x\""]
    );
    assert_eq!(wrong(json!({"maybe": "x"})), ["maybe must have at least 3 characters, not 1"]);
    assert_eq!(wrong(json!({"maybe": 5})), ["maybe must be a string or null, not 5"]);
    assert_eq!(wrong(json!({"shape": {}})), ["shape fits none of the forms that are allowed"]);
    assert_eq!(wrong(json!({"both": 3})), ["both must be at most 2, not 3"]);
}

#[test]
fn what_it_does_not_know_passes() {
    for schema in [
        json!(null),
        json!(true),
        json!({"type": "file"}),
        json!({"pattern": "^a$"}),
        json!({"not": {}}),
        json!({"if": {"pattern": "b"}, "then": false}),
        json!({"patternProperties": {"^x-": {}}, "additionalProperties": false}),
        json!({"minimum": "1", "enum": 5, "required": 5, "properties": []}),
    ] {
        assert!(faults(&schema, &json!({"x-a": 1})).is_empty(), "{schema}");
        assert!(faults(&schema, &json!("b")).is_empty(), "{schema}");
    }
}

#[test]
fn types_are_found_behind_references_and_choices() {
    let root = json!({"$defs": {"C": {"enum": ["red", 1]}}});
    let of = |schema: Value| sorts(&schema, &root).join(",");
    assert_eq!(of(json!({"$ref": "#/$defs/C"})), "string,integer");
    assert_eq!(of(json!({"anyOf": [{"type": "string"}, {"type": "null"}]})), "string,null");
    assert_eq!(of(json!({"type": ["number", "boolean"]})), "number,boolean");
    assert_eq!(of(json!({})), "");
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
        let faults = check(&schema, &value);
        prop_assert!(faults.len() < 10_000);
        let _ = (sorts(&schema, &schema), resolved(&schema, &schema));
    }
}

#[test]
fn branches_without_number_are_not_all_walked() {
    for word in ["anyOf", "oneOf", "allOf"] {
        let twice = json!([{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]);
        let schema = json!({"$defs": {"a": {word: twice}}, "allOf": [{"$ref": "#/$defs/a"}],
            "properties": {"x": {"type": "integer"}}});
        assert_eq!(faults(&schema, &json!({"x": 1})), Vec::<String>::new(), "{word}");
        assert_eq!(sorts(&schema, &schema), Vec::<&str>::new(), "{word}");
        // What was found before the end is still told.
        assert_eq!(faults(&schema, &json!({"x": "y"})), ["x must be an integer, not \"y\""]);
    }
}

#[test]
fn of_a_type_that_nobody_knows_anything_goes() {
    let schema = json!({"type": "any"});
    assert_eq!(sorts(&schema, &schema), Vec::<&str>::new());
    assert_eq!(faults(&schema, &json!("x")), Vec::<String>::new());
}
