//! Model files: what is refused and how, what survives, and the reference's arithmetic.
#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "a helper that fails fails its test; exact zeros are meant"
)]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use ipu_tune::model::{Graph, ModelError, data, reference, shipped};
use ipu_tune::plan::Network;
use ipu_tune::target::DataType;
use proptest::prelude::*;

const GOOD: &str = r#"{"format": "ipu-tune/model@1", "name": "m",
  "inputs": [{"name": "x", "shape": [4, 8], "dtype": "f16"}],
  "parameters": [{"name": "w", "shape": [8, 6], "dtype": "f16"}],
  "operations": [{"name": "mm", "op": "matmul", "inputs": ["x", "w"], "outputs": [{"name": "y", "shape": [4, 6], "dtype": "f16"}]}],
  "outputs": ["y"]}"#;

fn read(text: &str) -> Result<Graph, ModelError> {
    Graph::from_json(text, Path::new("m.json"))
}

/// The message of the refusal with its causes; every one names the file.
fn refusal(text: &str) -> String {
    let error = read(text).expect_err(text);
    let mut message = error.to_string();
    assert!(message.contains("m.json"), "{message}");
    let mut cause = std::error::Error::source(&error);
    while let Some(found) = cause {
        message += &format!(": {found}");
        cause = found.source();
    }
    message
}

fn changed(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replacen(from, to, 1)
}

#[test]
fn bad_models_are_refused_with_place_and_reason() {
    let cases = [
        (String::new(), "is empty"),
        ("  \n".to_owned(), "is empty"),
        ("not json".to_owned(), "expected"),
        (GOOD[..120].to_owned(), "EOF"),
        (format!("{GOOD} {{}}"), "trailing characters"),
        (changed("model@1", "model@2"), "`ipu-tune/model@2`, expected `ipu-tune/model@1`"),
        (changed("\"name\": \"m\"", "\"name\": \"m\", \"colour\": 1"), "unknown field `colour`"),
        (
            changed("\"op\": \"matmul\"", "\"op\": \"matmull\""),
            "unknown operator `matmull` at `operations[0].op`",
        ),
        (changed("[4, 8]", "[4, 9]"), "operations[0].inputs"),
        (
            changed("[4, 6], \"dtype\": \"f16\"}]", "[4, 7], \"dtype\": \"f16\"}]"),
            "found f16 [4, 7], expected f16 [4, 6]",
        ),
        (changed("[4, 8]", "[4, 0]"), "dimension of 0"),
        (changed("[4, 8]", "[4, 4294967296]"), "inputs[0].shape[1]"),
        (changed("[4, 8]", "[4, -8]"), "inputs[0].shape[1]"),
        (changed("[4, 8]", "[2000000000, 2000000000, 8]"), "elements or more"),
        (changed("[\"x\", \"w\"]", "[\"x\", \"v\"]"), "reads `v`, which nothing before it makes"),
        (changed("[\"x\", \"w\"]", "[\"y\", \"w\"]"), "reads `y`, which nothing before it makes"),
        (changed("\"outputs\": [\"y\"]", "\"outputs\": [\"z\"]"), "outputs[0]"),
        (changed("\"outputs\": [\"y\"]", "\"outputs\": []"), "at least one"),
        (changed("\"name\": \"w\"", "\"name\": \"x\""), "defines `x` a second time"),
        (
            changed(
                "\"dtype\": \"f16\"}],\n  \"operations\"",
                "\"dtype\": \"f32\"}],\n  \"operations\"",
            ),
            "operand types f16, f32",
        ),
        (
            changed(
                "\"dtype\": \"f16\"}],\n  \"parameters\"",
                "\"dtype\": \"bf16\"}],\n  \"parameters\"",
            ),
            "unknown variant `bf16`",
        ),
        (
            changed(
                "\"op\": \"matmul\"",
                "\"op\": \"matmul\", \"attributes\": {\"transpose\": true}",
            ),
            "unknown field `transpose`",
        ),
        (
            changed(
                "\"op\": \"matmul\"",
                "\"op\": \"matmul\", \"attributes\": {\"transpose_left\": 1}",
            ),
            "invalid type",
        ),
        (changed("[\"x\", \"w\"]", "[\"x\"]"), "1 operands"),
        (
            changed(
                "\"dtype\": \"f16\"}],\n  \"parameters\"",
                "\"dtype\": \"f16\", \"scale\": 3}],\n  \"parameters\"",
            ),
            "scale 3",
        ),
    ];
    for (text, wanted) in cases {
        let message = refusal(&text);
        assert!(message.contains(wanted), "{message}\n  wanted: {wanted}");
    }
}

#[test]
fn attributes_that_are_no_numbers_are_refused() {
    let norm = |epsilon: &str| {
        format!(
            r#"{{"format": "ipu-tune/model@1", "name": "m", "inputs": [{{"name": "x", "shape": [4, 8], "dtype": "f16"}}],
            "parameters": [{{"name": "g", "shape": [8], "dtype": "f16"}}],
            "operations": [{{"name": "n", "op": "rmsnorm", "inputs": ["x", "g"], "attributes": {{"epsilon": {epsilon}}}, "outputs": [{{"name": "y", "shape": [4, 8], "dtype": "f16"}}]}}],
            "outputs": ["y"]}}"#
        )
    };
    assert!(read(&norm("1e-5")).is_ok());
    for bad in ["NaN", "1e999", "-1.0", "\"x\""] {
        refusal(&norm(bad));
    }
}

#[test]
fn what_cannot_be_lowered_is_refused_by_name() {
    let text = GOOD.replace("\"f16\"", "\"f32\"");
    let error = Network::from_graph(&read(&text).unwrap()).unwrap_err();
    assert!(error.to_string().contains("`mm` (matmul) has no implementation yet"), "{error}");
}

#[test]
fn shipped_models_parse_and_know_what_they_are() {
    let mut tunable = vec![];
    for (name, text) in shipped::MODELS {
        let graph = Graph::from_json(text, Path::new(name)).unwrap();
        assert_eq!(graph.name(), *name);
        let again = Graph::from_json(&graph.to_json_pretty(), Path::new(name)).unwrap();
        assert_eq!((again.hash(), &again), (graph.hash(), &graph));
        match Network::from_graph(&graph) {
            Ok(network) => {
                tunable.push(*name);
                assert!(network.nodes.len() <= graph.operations().len() + 2);
            }
            Err(error) => assert!(error.to_string().contains("has no implementation yet")),
        }
    }
    for wanted in [
        "siglip-mlp-f16",
        "siglip-attention-f16",
        "bert-base-128",
        "vit-b16-block",
        "mlp2-256",
        "typed-attention-f8-64t",
    ] {
        assert!(tunable.contains(&wanted), "{wanted}");
    }
    for (name, graph) in [
        ("siglip-mlp-f16", shipped::siglip_mlp(DataType::F16)),
        ("siglip-mlp-f8", shipped::siglip_mlp(DataType::F8)),
        ("siglip-attention-f16", shipped::siglip_attention(DataType::F16)),
        ("siglip-attention-f8", shipped::siglip_attention(DataType::F8)),
    ] {
        let text = shipped::MODELS.iter().find(|(found, _)| *found == name).unwrap().1;
        assert_eq!(graph.unwrap().to_json_pretty(), *text, "{name} is what its builder makes");
    }
}

#[test]
fn bert_has_the_published_number_of_multiply_adds() {
    let text = shipped::MODELS.iter().find(|(name, _)| *name == "bert-base-128").unwrap().1;
    let graph = Graph::from_json(text, Path::new("bert")).unwrap();
    assert_eq!(graph.multiply_adds(), 931_135_488);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The order of fields and white space do not change what a model is; a shape does.
    #[test]
    fn the_hash_is_of_the_content(rows in 1..50_u32, inner in 1..50_u32, columns in 1..50_u32) {
        let tensor = |name: &str, a: u32, b: u32| format!(r#"{{"name": "{name}", "shape": [{a}, {b}], "dtype": "f16"}}"#);
        let (x, w, y) = (tensor("x", rows, inner), tensor("w", inner, columns), tensor("y", rows, columns));
        let one = format!(r#"{{"format": "ipu-tune/model@1", "name": "m", "inputs": [{x}], "parameters": [{w}],
            "operations": [{{"name": "mm", "op": "matmul", "inputs": ["x", "w"], "outputs": [{y}]}}], "outputs": ["y"]}}"#);
        let other = format!(r#"{{"outputs":["y"],"operations":[{{"outputs":[{y}],"attributes":{{"transpose_right":false}},
            "inputs":["x","w"],"op":"matmul","name":"mm"}}],"parameters":[{w}],"inputs":[{x}],"name":"m","format":"ipu-tune/model@1"}}"#);
        let (one, other) = (read(&one).unwrap(), read(&other).unwrap());
        prop_assert_eq!(one.hash(), other.hash());
        let taller = tensor("x", rows + 1, inner);
        let changed = one.to_json().replace(&x.replace(": ", ":").replace(", ", ","), &taller.replace(": ", ":").replace(", ", ","));
        prop_assert!(changed != one.to_json() && read(&changed).is_err(), "the result's shape no longer fits");
    }

    /// The reference's product against a plain triple loop in f64.
    #[test]
    fn products_are_right(rows in 1..20_usize, inner in 1..40_usize, columns in 1..300_usize, seed in 0..99_u64) {
        let tensor = |name: &str, a: usize, b: usize| format!(r#"{{"name": "{name}", "shape": [{a}, {b}], "dtype": "f32"}}"#);
        let (x, w, y) = (tensor("x", rows, inner), tensor("w", columns, inner), tensor("y", rows, columns));
        let graph = read(&format!(r#"{{"format": "ipu-tune/model@1", "name": "m", "inputs": [{x}], "parameters": [{w}],
            "operations": [{{"name": "mm", "op": "matmul", "attributes": {{"transpose_right": true}}, "inputs": ["x", "w"], "outputs": [{y}]}}], "outputs": ["y"]}}"#)).unwrap();
        let values = data::generate(&graph, seed, data::Values::empty(&graph));
        let (x, w) = (values.get(graph.inputs()[0]), values.get(graph.parameters()[0]));
        let all = reference::evaluate(&graph, &values, &AtomicBool::new(false)).unwrap();
        for r in 0..rows {
            for c in 0..columns {
                let exact: f64 = (0..inner).map(|k| f64::from(x[r * inner + k]) * f64::from(w[c * inner + k])).sum();
                let found = f64::from(all.get(graph.outputs()[0])[r * columns + c]);
                prop_assert!((found - exact).abs() < 1e-4 * (1.0 + exact.abs()), "{} {}", found, exact);
            }
        }
    }
}

/// A model of one operation on given numbers, evaluated.
fn one(op: &str, attributes: &str, inputs: &[(&[u32], &[f32])], output: &[u32]) -> Vec<f32> {
    let tensor = |name: String, shape: &[u32]| {
        format!(r#"{{"name": "{name}", "shape": {shape:?}, "dtype": "f32"}}"#)
    };
    let names: Vec<String> = (0..inputs.len()).map(|index| format!("x{index}")).collect();
    let declared: Vec<String> =
        names.iter().zip(inputs).map(|(name, (shape, _))| tensor(name.clone(), shape)).collect();
    let graph = read(&format!(
        r#"{{"format": "ipu-tune/model@1", "name": "m", "inputs": [{}], "operations": [{{"name": "o", "op": "{op}",
        "attributes": {attributes}, "inputs": {names:?}, "outputs": [{}]}}], "outputs": ["y"]}}"#,
        declared.join(","),
        tensor("y".to_owned(), output)
    ))
    .unwrap();
    let mut values = data::Values::empty(&graph);
    for (id, (_, numbers)) in graph.inputs().iter().zip(inputs) {
        values.set(*id, numbers.to_vec());
    }
    reference::evaluate(&graph, &values, &AtomicBool::new(false))
        .unwrap()
        .get(graph.outputs()[0])
        .to_vec()
}

fn close(found: &[f32], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len());
    for (a, b) in found.iter().zip(wanted) {
        assert!((a - b).abs() < 1e-4, "{found:?} {wanted:?}");
    }
}

#[test]
fn operators_do_what_they_say() {
    let x: &[f32] = &[-2.0, -0.5, 0.0, 1.0];
    let row: (&[u32], &[f32]) = (&[1, 4], x);
    close(&one("relu", "{}", &[row], &[1, 4]), &[0.0, 0.0, 0.0, 1.0]);
    close(&one("sigmoid", "{}", &[row], &[1, 4]), &[0.119_203, 0.377_541, 0.5, 0.731_059]);
    close(&one("silu", "{}", &[row], &[1, 4]), &[-0.238_406, -0.188_770, 0.0, 0.731_059]);
    close(&one("gelu", "{}", &[row], &[1, 4]), &[-0.045_500, -0.154_269, 0.0, 0.841_345]);
    close(&one("gelu_tanh", "{}", &[row], &[1, 4]), &[-0.045_402, -0.154_286, 0.0, 0.841_192]);
    close(
        &one("softmax", r#"{"axis": -1}"#, &[row], &[1, 4]),
        &[0.030_343, 0.135_989, 0.224_208, 0.609_460],
    );
    let ones: (&[u32], &[f32]) = (&[4], &[1.0; 4]);
    close(
        &one("rmsnorm", r#"{"epsilon": 0.0}"#, &[row, ones], &[1, 4]),
        &[-1.745_743, -0.436_436, 0.0, 0.872_872],
    );
    let twos: (&[u32], &[f32]) = (&[4], &[2.0; 4]);
    close(
        &one("layernorm", r#"{"epsilon": 0.0}"#, &[row, ones, twos], &[1, 4]),
        &[0.498_889, 1.884_53, 2.346_41, 3.270_171],
    );
    close(&one("add", "{}", &[row, twos], &[1, 4]), &[0.0, 1.5, 2.0, 3.0]);
    close(&one("mul", "{}", &[row, (&[1], &[3.0])], &[1, 4]), &[-6.0, -1.5, 0.0, 3.0]);
    close(
        &one(
            "split_heads",
            r#"{"heads": 2}"#,
            &[(&[2, 4], &[1., 2., 3., 4., 5., 6., 7., 8.])],
            &[2, 2, 2],
        ),
        &[1., 2., 5., 6., 3., 4., 7., 8.],
    );
    close(
        &one("merge_heads", "{}", &[(&[2, 2, 2], &[1., 2., 5., 6., 3., 4., 7., 8.])], &[2, 4]),
        &[1., 2., 3., 4., 5., 6., 7., 8.],
    );
    close(
        &one(
            "concat",
            r#"{"axis": 1}"#,
            &[(&[2, 1], &[1., 4.]), (&[2, 2], &[2., 3., 5., 6.])],
            &[2, 3],
        ),
        &[1., 2., 3., 4., 5., 6.],
    );
    close(
        &one("rope", r#"{"position": 1}"#, &[(&[1, 1, 2], &[1.0, 0.0])], &[1, 1, 2]),
        &[0.540_302, 0.841_471],
    );
    let image: (&[u32], &[f32]) = (&[4, 1], &[1., 2., 3., 4.]);
    close(&one("im2col", r#"{"kernel": 2}"#, &[image], &[1, 4]), &[1., 2., 3., 4.]);
    close(&one("max_pool", r#"{"kernel": 3, "stride": 2}"#, &[image], &[1, 1]), &[4.0]);
    close(
        &one(
            "attention_scores",
            r#"{"causal": true, "scale": 2.0}"#,
            &[(&[1, 2, 1], &[1., 2.]), (&[1, 2, 1], &[3., 5.])],
            &[1, 2, 2],
        )[2..],
        &[12., 20.],
    );
    close(
        &one(
            "attention_values",
            "{}",
            &[(&[1, 1, 2], &[0.25, 0.75]), (&[1, 2, 1], &[4., 8.])],
            &[1, 1, 1],
        ),
        &[7.0],
    );
    let equal = one(
        "attention",
        "{}",
        &[(&[1, 1, 1], &[0.0]), (&[1, 2, 1], &[1., 2.]), (&[1, 2, 1], &[4., 8.])],
        &[1, 1, 1],
    );
    close(&equal, &[6.0]);
}
