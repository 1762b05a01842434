//! The incumbent's package: found, told from others, checked, and taken apart.

use crate::check::{self, Violations};
use crate::model::Graph;
use crate::package::{Application, PackageError, load};
use crate::plan::Recipe;
use crate::report::figures::{PackageFigures, Proven};
use crate::search::support::lay_out;
use crate::search::usage::{SupportUsage, TileUsage};
use crate::store::{HistoryEntry, current};

use super::super::error::CliError;
use super::super::origin::lowered;
use super::super::picture::picture;
use super::Study;
use super::files::Files;

/// What a package turned out to be.
pub(super) enum Found {
    /// The incumbent's: what it shows, and its model.
    Incumbent { figures: Box<PackageFigures>, graph: Box<Graph> },
    /// None that can be shown.
    Nothing { reason: String },
}

/// The incumbent of a study, and the tile that the user wants to see.
pub(super) struct Wanted<'a> {
    pub(super) study: &'a Study,
    pub(super) tile: Option<u16>,
}

impl Wanted<'_> {
    /// Looks at the package.
    ///
    /// # Errors
    /// If the user named a file that is no package, or one whose tile cannot be drawn.
    pub(super) fn find(&self, files: &Files) -> Result<Found, CliError> {
        let nothing = |reason: String| Ok(Found::Nothing { reason });
        let (bytes, application) = match load(&files.package) {
            Ok(found) => found,
            Err(error) if files.named => return Err(error.into()),
            Err(PackageError::Read { .. }) => {
                return nothing("the package is missing or cannot be read".to_owned());
            }
            Err(error) => return nothing(error.to_string()),
        };
        let Some(incumbent) = current(&self.study.history) else {
            return nothing("the study has no incumbent that a package could be of".to_owned());
        };
        if let Some(reason) = self.foreign(&application, incumbent) {
            return nothing(reason);
        }
        match check::package(&bytes) {
            Ok(report) => self.figures(files, &bytes, &report, incumbent),
            Err(violations) => nothing(invalid(&violations)),
        }
    }

    /// Why a package is not the incumbent's, if it is not.
    fn foreign(&self, application: &Application, incumbent: &HistoryEntry) -> Option<String> {
        let (origin, key) = (&application.origin, &self.study.key);
        let nowhere = std::path::Path::new("package");
        let graph = Graph::from_json(&origin.model, nowhere).ok();
        let model = graph.map(|graph| graph.hash().to_string());
        if model.as_ref() != Some(&key.model_hash) {
            return Some("the package is of another model".to_owned());
        }
        let recipe = Recipe::from_json(&origin.recipe).ok();
        let candidate = recipe.map(|recipe| recipe.hash().to_string()).unwrap_or_default();
        if candidate != incumbent.candidate {
            let wanted = &incumbent.candidate;
            return Some(format!(
                "the package is of candidate {candidate}, the incumbent is {wanted}"
            ));
        }
        (origin.evaluator_version != key.evaluator).then(|| {
            format!(
                "the package was made by evaluator version {}, the study is of version {}",
                origin.evaluator_version, key.evaluator
            )
        })
    }

    fn figures(
        &self,
        files: &Files,
        bytes: &[u8],
        report: &check::Checked<check::Report>,
        incumbent: &HistoryEntry,
    ) -> Result<Found, CliError> {
        let application = &report.get().application;
        let path = &files.package;
        let lowered = lowered(path, application)?;
        let program = &lowered.program;
        // Rows lie behind everything else: how many there are moves nothing that is asked for.
        let (_, support) = lay_out(program, 0).map_err(|failure| CliError::Origin {
            path: path.clone(),
            what: failure.to_string(),
        })?;
        let images = application.tiles.iter();
        let usage: Vec<TileUsage> =
            images.map(|image| TileUsage::of(image, application, &support)).collect();
        let proven = Proven {
            bytes,
            report,
            network: &lowered.network,
            program,
            support: &SupportUsage::of(application, &support),
            usage: &usage,
        };
        let coefficients = self.study.coefficients(application.origin.calibration_version);
        let drawn = picture(path, application, program, self.tile)?;
        let figures = PackageFigures::of(proven, &incumbent.candidate, &coefficients, drawn);
        Ok(Found::Incumbent { figures: Box::new(figures), graph: Box::new(lowered.graph) })
    }
}

fn invalid(violations: &Violations) -> String {
    let first = violations.list().first().map(ToString::to_string).unwrap_or_default();
    format!("the package is wrong: {} violations, the first: {first}", violations.count())
}
