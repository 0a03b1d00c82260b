//! Balanced accuracy, F1 and AUC of the task, compared with scikit-learn (`tests/golden/task.py`), and their limits.

use serde_json::Value;

use super::*;

fn logits(labels: &[f64], columns: usize, logits: Vec<f64>) -> Columns {
    Columns::new(labels.len(), 1).with(TensorName::TaskLabels, &[], labels.to_vec()).with(
        TensorName::TaskLogits,
        &[columns],
        logits,
    )
}

#[test]
fn they_are_those_of_scikit_learn() {
    let golden: Value = serde_json::from_str(include_str!("../golden/task.json")).unwrap();
    assert!(golden["made_with"]["scikit-learn"].as_str().unwrap().starts_with("1.9."));
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 5);
    let numbers = |values: &Value| values.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect::<Vec<_>>();
    for case in cases {
        let columns = case["columns"].as_u64().unwrap() as usize;
        let columns = logits(&numbers(&case["task_labels"]), columns, numbers(&case["task_logits"]));
        for id in ["task_balanced_accuracy", "task_f1", "task_auc"] {
            let (got, expected) = (columns.value(id), case[id].as_f64().unwrap());
            assert!((got - expected).abs() < 1e-12, "{}: {id} {got}, expected {expected}", case["name"]);
        }
    }
}

#[test]
fn equal_logits_have_an_area_of_one_half() {
    let labels: Vec<f64> = (0..30).map(|row| (row % 3) as f64).collect();
    assert_eq!(logits(&labels, 3, vec![0.25; 90]).value("task_auc"), 0.5);
    let binary: Vec<f64> = labels.iter().map(|label| label % 2.0).collect();
    assert_eq!(logits(&binary, 1, vec![2.0; 30]).value("task_auc"), 0.5);
}

#[test]
fn a_constant_of_each_row_changes_no_area() {
    let labels: Vec<f64> = (0..40).map(|row| (row % 4) as f64).collect();
    let values = gaussians(160, &mut random(5));
    let moved = values.iter().enumerate().map(|(at, z)| z + 64.0 * ((at / 4) % 7) as f64).collect();
    let (plain, moved) = (logits(&labels, 4, values), logits(&labels, 4, moved));
    assert!((plain.value("task_auc") - moved.value("task_auc")).abs() < 1e-12);
}

#[test]
fn one_class_has_no_area() {
    assert_eq!(logits(&[1.0; 9], 2, vec![0.5; 18]).why("task_auc"), "there is one class only");
    let columns = Columns::new(9, 1).with(TensorName::TaskLabels, &[], vec![0.0; 9]);
    let never = columns.with(TensorName::TaskPredictions, &[], vec![0.0; 9]);
    assert_eq!(never.why("task_f1"), "it is neither present nor predicted in any row");
    assert_eq!(never.why("task_auc"), "needs task_logits, which was not given");
}
