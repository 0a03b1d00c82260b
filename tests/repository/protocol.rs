//! Comments of the protocol.

/// The files of its packages.
const FILES: [&str; 2] = ["conceptwatch/v1/conceptwatch.proto", "conceptwatch/hub/v1/hub.proto"];

/// A comment behind a field that goes on in the next line would document the next field.
#[test]
fn a_comment_behind_a_field_is_of_one_line() {
    for file in FILES {
        let text = std::fs::read_to_string(format!("{}/proto/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (at, pair) in lines.windows(2).enumerate() {
            let behind = pair[0].split_once(';').is_some_and(|(_, rest)| rest.trim_start().starts_with("//"));
            assert!(!behind || !pair[1].starts_with("//"), "{file}:{}: {}", at + 1, pair[0]);
        }
    }
}
