//! Comparison with scikit-learn 1.9; `crates/leakage/tests/golden/make.py` writes the values.

use serde_json::Value;

use super::*;

#[test]
fn without_ties_scikit_learn_computes_the_same() {
    let golden: Value = serde_json::from_str(include_str!("../golden/mutual_information.json")).unwrap();
    assert!(golden["made_with"]["scikit-learn"].as_str().unwrap().starts_with("1.9."));
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 16);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let neighbours = case["neighbours"].as_u64().unwrap() as usize;
        let expected = case["value"].as_f64().unwrap();
        let (x, y) = (variable(&case["x"], X), variable(&case["y"], Y));
        let exact = estimate(&x, &y, &tie_aware(neighbours)).value;
        assert!((exact - expected).abs() < 1e-12, "{name}: {exact}, scikit-learn {expected}");
        let noisy = estimate(&x, &y, &published(neighbours)).unclipped;
        let wide = matches!(&x, Variable::Vector(x) if x.block().width() > 15);
        // Noise of 10⁻¹⁰ reorders almost nothing; wide vectors repeat a rounding error of the published code.
        let (lowest, highest) = if wide { (-0.4, -0.02) } else { (-1e-6, 1e-6) };
        assert!((lowest..=highest).contains(&(noisy - expected)), "{name}: published {noisy}, scikit-learn {expected}");
    }
}

fn variable(side: &Value, key: Key) -> Variable {
    let floats = |name: &str| -> Option<Vec<f64>> {
        Some(side.get(name)?.as_array()?.iter().map(|value| value.as_f64().unwrap()).collect())
    };
    if let Some(values) = floats("scalar") {
        return scalar(&values, key);
    }
    if let Some(values) = floats("vector") {
        return vector(&values, side["width"].as_u64().unwrap() as usize, key);
    }
    Variable::discrete(&floats("discrete").unwrap().into_iter().map(|code| code as i32).collect::<Vec<_>>())
}
