//! Shipped models in other sizes.

/// A model with another number of rows: every dimension that is as long as its first input's.
pub(crate) fn with_rows(text: &str, rows: u64) -> String {
    fn replace(value: &mut serde_json::Value, from: u64, to: u64) {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, field) in fields {
                    match field.as_array_mut().filter(|_| name == "shape") {
                        Some(shape) => {
                            let same = shape.iter_mut().filter(|length| **length == from);
                            same.for_each(|length| *length = to.into());
                        }
                        None => replace(field, from, to),
                    }
                }
            }
            serde_json::Value::Array(items) => {
                items.iter_mut().for_each(|item| replace(item, from, to));
            }
            _ => {}
        }
    }
    let mut model: serde_json::Value = serde_json::from_str(text).expect("a shipped model");
    let from = model["inputs"][0]["shape"][0].as_u64().expect("a shipped model");
    replace(&mut model, from, rows);
    model.to_string()
}
