//! `ipu-tune run PACKAGE`: runs it and compares its results with the host reference.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde_json::json;

use crate::device::{HostData, Summary};
use crate::model::{data, reference};
use crate::package::load;
use crate::program::{Role, host_bytes, outputs};
use crate::report;
use crate::search::evaluate::compare_outputs;

use super::Exit;
use super::args::RunArgs;
use super::error::CliError;
use super::origin::{Lowered, lowered};
use super::output::Output;

/// Runs a package.
pub(super) fn run(args: &RunArgs, output: &Output) -> Result<Exit, CliError> {
    let path = &args.package;
    let (_, application) = load(path)?;
    let Lowered { graph, network, program } = lowered(path, &application)?;
    let beside = path.parent().unwrap_or(Path::new("."));
    let folder = args.data.as_deref().unwrap_or(beside);
    let values = data::generate(&graph, application.origin.seed, data::real(&graph, folder)?);
    let never = AtomicBool::new(false);
    let Some(expected) = reference::evaluate(&graph, &values, &never) else {
        return Ok(Exit::Interrupted);
    };
    let bytes = |role| host_bytes(&graph, &network, &program, role, &values);
    let host = HostData { weights: bytes(Role::Parameter), inputs: bytes(Role::Input) };
    let device = super::tune::device(&args.device)?;
    let measurement = device.measure(&application, &host, &never)?;
    let found = outputs(&graph, &network, &program, &measurement.outputs);
    let numerics = compare_outputs(&graph, &expected, &found);
    let cycles = Summary::of(&measurement.cycles).map_or(0, |summary| summary.median);
    let identity = measurement.device;
    let value = json!({
        "format": "ipu-tune/run@1",
        "cycles": cycles,
        "device": identity.name,
        "simulated": identity.simulated,
        "numerics": numerics,
    });
    output.result(&value, || {
        format!(
            "{} cycles ({}, {})\ncosine {:.7}, largest error {:.5}, {} not finite: {}",
            report::cycles(cycles),
            report::source(identity.simulated),
            identity.name,
            numerics.minimum_cosine,
            numerics.maximum_absolute_error,
            numerics.non_finite,
            if numerics.pass { "pass" } else { "FAIL" }
        )
    })?;
    if numerics.pass {
        Ok(Exit::Success)
    } else {
        Err(CliError::WrongNumbers { path: path.clone() })
    }
}
