//! A simulated IPU21 that executes the bytes of a package: it fetches and decodes every tile's
//! supervisor program and rows from the tile's memory, moves words as the selected sources and
//! pointers say, and runs a kernel when its symbol's address is called. A mistimed control loses or
//! misplaces words here as on the chip.
//!
//! Cycles come from a silicon profile ([`silicon`]) that the cost model does not read.
//!
//! Idealised: memory element conflicts are not simulated (`check` proves their absence), and host
//! transfer takes no time.

pub mod exchange;
pub mod machine;
pub mod rows;
pub mod silicon;
pub mod transport;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use crate::kernels::Kernel;
use crate::package::Application;

use super::{Device, DeviceError, HostData, Identity, Measurement, placements};
use machine::{Machine, Routine};
use silicon::Silicon;

/// The simulated device.
#[derive(Clone, Debug)]
pub struct SimulatedDevice {
    silicon: Silicon,
}

impl Default for SimulatedDevice {
    fn default() -> SimulatedDevice {
        SimulatedDevice { silicon: Silicon::built_in() }
    }
}

impl SimulatedDevice {
    /// A device with another silicon profile. Its name ends with what the text hashes to, so that a
    /// profile that was edited is another device.
    ///
    /// # Errors
    /// If the text is no profile.
    pub fn with_profile(text: &str) -> Result<SimulatedDevice, serde_json::Error> {
        let mut silicon = Silicon::parse(text)?;
        let hash = blake3::hash(text.as_bytes()).to_hex();
        silicon.name = format!("{}#{}", silicon.name, &hash[..8]);
        Ok(SimulatedDevice { silicon })
    }
}

impl Device for SimulatedDevice {
    fn identity(&self) -> Identity {
        Identity { name: format!("sim:{}", self.silicon.name), simulated: true }
    }

    fn measure(
        &self,
        application: &Application,
        data: &HostData,
        stop: &AtomicBool,
    ) -> Result<Measurement, DeviceError> {
        let mut machine = Machine::load(application, &self.silicon, routines(application))?;
        machine.write(&placements(&application.weights), &data.weights)?;
        machine.write(&placements(&application.inputs), &data.inputs)?;
        let run = machine.run(stop)?;
        let outputs = machine.read(&placements(&application.outputs))?;
        Ok(Measurement {
            cycles: vec![run.cycles],
            outputs,
            steps: run.steps,
            device: self.identity(),
        })
    }
}

/// What lies at the addresses that a program may call.
fn routines(application: &Application) -> BTreeMap<u32, Routine> {
    let known = application.debug_symbols.iter().filter_map(|symbol| {
        let routine = match symbol.name.as_str() {
            "runtime.barrier" => Routine::Barrier,
            "runtime.sample" => Routine::Sample,
            name => Routine::Kernel(Kernel::from_symbol(name)?),
        };
        Some((symbol.address, routine))
    });
    known.collect()
}
