//! Queues of values: the message size is part of the type, which is how their authors mean them to be used.

use sidestep_bench::ring::{Channel, Contestant, Job, Load, Near, Threads};
use sidestep_sys::Problem;
use std::marker::PhantomData;

/// The sizes for which there is a type.
const SIZES: [u32; 9] = [8, 16, 32, 48, 64, 128, 256, 512, 1024];

/// One queue, for every size.
pub(crate) trait Family {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    type Of<const N: usize>: Channel + Default + Sync;
}

/// A contestant that chooses the type by the size asked for.
pub(crate) struct BySize<F>(PhantomData<F>);

impl<F: Family + 'static> BySize<F> {
    pub(crate) fn boxed() -> Box<dyn Contestant> {
        Box::new(Self(PhantomData))
    }

    fn with<const N: usize>(job: &Job, near: &mut Near) -> Result<(), Problem> {
        let (channel, name, description) = (F::Of::<N>::default(), F::NAME, F::DESCRIPTION);
        Threads { channel, name, description, sleeps: false, no_stream: None }.run(job, near)
    }
}

impl<F: Family + 'static> Contestant for BySize<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn description(&self) -> String {
        F::DESCRIPTION.into()
    }

    fn sleeps(&self) -> bool {
        false
    }

    fn refusal(&self, size: u32, _: Load) -> Option<String> {
        (!SIZES.contains(&size)).then(|| format!("there is a type for {SIZES:?} bytes only"))
    }

    fn run(&self, job: &Job, near: &mut Near) -> Result<(), Problem> {
        match job.shape.size {
            8 => Self::with::<8>(job, near),
            16 => Self::with::<16>(job, near),
            32 => Self::with::<32>(job, near),
            48 => Self::with::<48>(job, near),
            64 => Self::with::<64>(job, near),
            128 => Self::with::<128>(job, near),
            256 => Self::with::<256>(job, near),
            512 => Self::with::<512>(job, near),
            1024 => Self::with::<1024>(job, near),
            size => Err(Problem::failed(format!("cannot measure {}", F::NAME), format!("no type for {size} bytes"))),
        }
    }
}
