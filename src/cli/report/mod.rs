//! `ipu-tune report STUDY --out FILE`: one page about a study and its incumbent.
//!
//! The database and the package are only read. A package that the user names has to be one; whether
//! it is the incumbent's, and right, the page says. Without a package the page does without the
//! sections that are about it.

mod files;
mod package;

use crate::cost::{Coefficients, hard_bound};
use crate::model::{self, Graph};
use crate::package::save;
use crate::report::figures::{
    CalibrationFigures, FORMAT, IncumbentFigures, PackagePart, StudyFigures, TrialFigures,
};
use crate::report::{ReportFigures, cycles, page, source};
use crate::search::state::{CalibrationRecord, State};
use crate::store::{HistoryEntry, LadderCounts, Store, StudyKey, StudySummary};
use crate::target::TILES;

use super::Exit;
use super::args::ReportArgs;
use super::error::CliError;
use super::output::Output;
use files::Files;
use package::{Found, Wanted};

/// All that a database knows of its newest study, at one moment.
struct Study {
    key: StudyKey,
    summary: StudySummary,
    history: Vec<HistoryEntry>,
    ladder: LadderCounts,
    calibrations: Vec<CalibrationRecord>,
    state: State,
}

impl Study {
    fn read(store: &Store) -> Result<Study, CliError> {
        store.hold_still()?;
        Ok(Study {
            key: store.key()?,
            summary: store.summary()?,
            history: store.history()?,
            ladder: store.ladder()?,
            calibrations: store.calibrations()?,
            state: store.newest_state()?.unwrap_or_default(),
        })
    }

    /// The coefficients of a calibration; those that come nearest if the database has them no more.
    fn coefficients(&self, version: u32) -> Coefficients {
        let mut known = self.calibrations.iter().map(|record| &record.coefficients);
        known.rfind(|known| known.version <= version).cloned().unwrap_or_default()
    }
}

/// Writes the page.
pub(super) fn report(args: &ReportArgs, output: &Output) -> Result<Exit, CliError> {
    let files = Files::of(args);
    let study = Study::read(&Store::open_read_only(&files.database)?)?;
    files.refuse_overwriting()?;
    if let Some(tile) = args.tile {
        check_tile(&files, &study, tile)?;
    }
    let wanted = Wanted { study: &study, tile: args.tile };
    let (found, graph) = match wanted.find(&files)? {
        Found::Incumbent { figures, graph } => (PackagePart::Incumbent(figures), Some(*graph)),
        Found::Nothing { reason } => {
            let path = files.package.display();
            output.note(&format!("`{path}`: {reason}; the page does without its sections"));
            (PackagePart::LeftOut { reason }, None)
        }
    };
    let graph = graph.or_else(|| model_of(&files, &study));
    let figures = figures(&study, graph.as_ref(), found);
    save(&args.out, page(&figures).as_bytes())?;
    output.result(&figures, || text(&figures, args))?;
    Ok(Exit::Success)
}

/// A tile that the study's packages load: they come in batches of 64.
fn check_tile(files: &Files, study: &Study, tile: u16) -> Result<(), CliError> {
    let tiles = study.key.tiles.next_multiple_of(64).min(TILES);
    if tile < tiles {
        return Ok(());
    }
    Err(CliError::NoTile { path: files.database.clone(), tile, tiles })
}

/// The study's model, if it still lies beside the database.
fn model_of(files: &Files, study: &Study) -> Option<Graph> {
    let graph = model::read(&files.model).ok()?;
    (graph.hash().to_string() == study.key.model_hash).then_some(graph)
}

fn figures(study: &Study, graph: Option<&Graph>, package: PackagePart) -> ReportFigures {
    let Study { key, summary, history, ladder, calibrations, state } = study;
    let bound = graph.map(|graph| hard_bound(graph, key.tiles).0);
    ReportFigures {
        format: FORMAT,
        study: StudyFigures::new(summary, key, state, history, bound),
        incumbents: IncumbentFigures::of(history, state),
        trials: TrialFigures::new(summary, *ladder, state),
        calibrations: calibrations.iter().map(CalibrationFigures::of).collect(),
        package,
    }
}

/// The result for people.
fn text(figures: &ReportFigures, args: &ReportArgs) -> String {
    let study = &figures.study;
    let best = study.incumbent.as_ref().map_or("no incumbent yet".to_owned(), |best| {
        let measured = cycles(best.measured_cycles);
        format!("best {measured} cycles ({}, {})", source(best.simulated), best.device)
    });
    format!("{}: {}, {} trials, {best}", args.out.display(), study.model, study.trials)
}
