//! The page of a study: one HTML file that needs no other, without scripts.

mod calibration;
mod html;
mod incumbents;
mod memory;
mod phases;
mod plot;
mod steps;
mod study;
mod trials;

use super::figures::{PackageFigures, PackagePart, ReportFigures};
use super::{cycles, source};
use html::{Markup, facts, paragraph, section};

/// How the page looks.
const STYLE: &str = "
body { font: 15px/1.45 sans-serif; color: #222; max-width: 1120px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.6em } h2 { font-size: 1.2em; margin-top: 2em; border-bottom: 1px solid #ddd }
table { border-collapse: collapse; font-size: 13px }
th, td { padding: 2px 10px 2px 0; text-align: left; vertical-align: top }
thead th { border-bottom: 1px solid #999 } tbody tr:nth-child(even) { background: #f6f6f6 }
.facts th { font-weight: normal; color: #666 } .number { text-align: right; white-space: nowrap }
figure { margin: 1em 0 } figcaption { color: #666; font-size: 13px } svg { width: 100%; height: auto }
.note { background: #fff4d6; padding: .5em 1em }
";

/// The page.
pub fn page(figures: &ReportFigures) -> String {
    let title = format!("ipu-tune report: {}", figures.study.model);
    let head = [
        Markup::element("meta", &[("charset", "utf-8".to_owned())], Markup::default()),
        Markup::plain("title", &title),
        // Nothing in it needs escaping, or it would not survive it.
        Markup::plain("style", STYLE),
    ];
    let body = [
        Markup::plain("h1", &title),
        study::section_of(&figures.study),
        incumbents::section_of(&figures.incumbents, &figures.study),
        trials::section_of(&figures.trials),
        calibration::section_of(&figures.calibrations),
        package(&figures.package),
    ];
    let parts = [
        Markup::element("head", &[], head.into_iter().collect()),
        Markup::element("body", &[], body.into_iter().collect()),
    ];
    let language = [("lang", "en".to_owned())];
    let html = Markup::element("html", &language, parts.into_iter().collect());
    format!("<!DOCTYPE html>\n{}", html.into_string())
}

/// What the incumbent's package shows, or why it is not shown.
fn package(part: &PackagePart) -> Markup {
    match part {
        PackagePart::Incumbent(package) => {
            let sections = [
                origin(package),
                steps::section_of(package),
                phases::section_of(&package.phases),
                memory::section_of(package),
            ];
            sections.into_iter().collect()
        }
        PackagePart::LeftOut { reason } => {
            let text = format!("Steps, exchange and memory are left out: {reason}.");
            let note = [("class", "note".to_owned())];
            section("package", "Package", Markup::element("p", &note, Markup::text(text)))
        }
    }
}

fn origin(package: &PackageFigures) -> Markup {
    let measured = match package.measured_cycles {
        0 => "not measured".to_owned(),
        found => with_source(found, package.simulated, &package.device),
    };
    let predicted = format!(
        "{} cycles (calibration {})",
        cycles(package.predicted_cycles),
        package.calibration_version
    );
    let content = [
        paragraph(
            "The package is the incumbent's. The checker has proved from its bytes that the chip \
             would do what the recipe means.",
        ),
        facts(&[
            ("size", format!("{} bytes", cycles(package.bytes as u64))),
            ("BLAKE3", package.hash.clone()),
            ("candidate", package.candidate.clone()),
            ("predicted", predicted),
            ("measured", measured),
        ]),
    ];
    section("package", "Package", content.into_iter().collect())
}

/// Measured cycles and who measured.
fn with_source(measured: u64, simulated: bool, device: &str) -> String {
    format!("{} cycles ({}, {device})", cycles(measured), source(simulated))
}
