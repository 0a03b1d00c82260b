//! Comparison with the published formulas, computed with scikit-learn and numpy by `tests/golden/make.py`. The data has
//! no ties.

use serde_json::Value;

use super::*;

#[test]
fn scores_are_those_of_the_formulas() {
    let golden: Value = serde_json::from_str(include_str!("../golden/scores.json")).unwrap();
    assert!(golden["made_with"]["scikit-learn"].as_str().unwrap().starts_with("1.9."));
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    let mut compared = 0;
    for case in cases {
        let columns = columns(case);
        for (id, expected) in case["scores"].as_object().unwrap() {
            let got = serde_json::to_value(columns.score(id)).unwrap();
            for (part, expected) in expected.as_object().unwrap() {
                let what = format!("{}: {id} {part}", case["name"]);
                let (got, expected) = (numbers(&got[part]), numbers(expected));
                assert_eq!(got.len(), expected.len(), "{what}");
                for (got, expected) in got.iter().zip(&expected) {
                    assert!((got - expected).abs() < 1e-11, "{what}: {got}, expected {expected}");
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, 134);
}

fn columns(case: &Value) -> Columns {
    let arrays = case["arrays"].as_object().unwrap();
    let sizes = |value: &Value| numbers(value).iter().map(|&size| size as usize).collect::<Vec<_>>();
    let cardinalities: Vec<u32> = sizes(&case["cardinalities"]).into_iter().map(|size| size as u32).collect();
    let k = cardinalities.len();
    let rows = arrays["concept_labels"]["values"].as_array().unwrap().len() / k;
    let kind = serde_json::from_value(case["activation_kind"].clone()).unwrap();
    arrays.iter().fold(Columns::new(rows, k).kind(kind).cardinalities(&cardinalities), |columns, (name, array)| {
        columns.with(TensorName::parse(name).unwrap(), &sizes(&array["dims"]), numbers(&array["values"]))
    })
}

/// All numbers, at any depth.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        number => vec![number.as_f64().unwrap_or_else(|| panic!("{number} is no number"))],
    }
}
