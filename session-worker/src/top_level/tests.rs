//! The scanner finds what a whole parser finds, however the input is cut.

use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Map, Value, json};

use super::{Found, NotAnObject, Plan, Scanner, Wanted};

const PLAN: Plan = Plan {
    fields: &[
        Wanted { name: "model", bytes: 4096 },
        Wanted { name: "stream", bytes: 16 },
        Wanted { name: "max_tokens", bytes: 32 },
        Wanted { name: "short", bytes: 3 },
    ],
    list: "messages",
};

fn scan(bytes: &[u8], cuts: &[usize]) -> Result<Found, NotAnObject> {
    let mut scanner = Scanner::new(PLAN);
    let mut from = 0;
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.sort_unstable();
    for cut in cuts {
        scanner.feed(&bytes[from..cut])?;
        from = cut;
    }
    scanner.feed(&bytes[from..])?;
    scanner.finish()
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<Option<bool>>().prop_map(|v| json!(v)),
        any::<i64>().prop_map(|v| json!(v)),
        any::<String>().prop_map(|v| json!(v)),
        "[\"\\\\\\[\\]{},:]{0,8}".prop_map(|v| json!(v)),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((key(), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    let ours = prop::sample::select(vec!["messages", "model", "stream", "max_tokens", "short"]);
    prop_oneof![ours.prop_map(str::to_owned), any::<String>()]
}

proptest! {
    #[test]
    fn it_finds_what_a_parser_finds(
        fields in prop::collection::vec((key(), value()), 0..8),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
        pretty in any::<bool>(),
    ) {
        let object: Map<String, Value> = fields.into_iter().collect();
        let text = if pretty { serde_json::to_vec_pretty(&object) } else { serde_json::to_vec(&object) }.unwrap();
        let found = scan(&text, &cuts).unwrap();
        for name in ["model", "stream", "max_tokens"] {
            let fits = object.get(name).filter(|v| {
                let bytes = serde_json::to_vec(v).unwrap().len();
                PLAN.fields.iter().any(|w| w.name == name && w.bytes >= bytes)
            });
            if let Some(expected) = fits {
                prop_assert_eq!(found.value::<Value>(name), Some(expected.clone()));
            }
            prop_assert_eq!(found.text(name).is_some(), object.contains_key(name));
        }
        prop_assert!(found.text("short").is_none_or(|kept| kept.len() <= 3));
        let list = object.get("messages").and_then(Value::as_array);
        prop_assert_eq!(found.list.map(|l| l.elements), list.map(|l| l.len() as u64));
        // White space between tokens does not count: the same object has the same digest however it is written.
        let plain = scan(&serde_json::to_vec(&object).unwrap(), &[]).unwrap();
        prop_assert_eq!(found.list, plain.list);
    }

    #[test]
    fn any_bytes_end_in_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = scan(&bytes, &[7, 31]);
    }

    #[test]
    fn a_cut_object_is_never_taken_for_a_whole_one(cut in 0usize..60) {
        let whole = br#"{"model":"a\"b}","messages":[{"x":[1,2]},"]"],"stream":true}"#;
        if cut < whole.len() {
            prop_assert_eq!(scan(&whole[..cut], &[]), Err(NotAnObject));
        }
    }
}

#[test]
fn the_last_element_is_told_apart_whatever_its_size() {
    let text = |last: &str| json!({"messages": ["x".repeat(700_000), "y", last]}).to_string();
    let digest = |last: &str| scan(text(last).as_bytes(), &[100, 650_000]).unwrap().list.unwrap().last;
    let (long, other) = ("a".repeat(900_000), format!("{}b", "a".repeat(899_999)));
    assert_eq!(digest("one"), digest("one"));
    assert_ne!(digest("one"), digest("two"));
    assert_eq!(digest(&long), digest(&long));
    assert_ne!(digest(&long), digest(&other));
    let alone = json!({"messages": ["one"]}).to_string();
    assert_eq!(scan(alone.as_bytes(), &[]).unwrap().list.unwrap().last, digest("one"));
}
