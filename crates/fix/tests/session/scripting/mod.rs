//! Runs scripts in the language of QuickFIX's acceptance tests (`.def`) against our session, in process and in virtual time.
//!
//! ```text
//! iCONNECT  i2,CONNECT      connect (to connection 2)        iDISCONNECT   cut the connection
//! I8=FIX... I2,8=FIX...     send; 9= and 10= are added       E8=FIX...     expect exactly this message
//! eDISCONNECT  eCONNECT     expect the end, the connection   <TIME> <TIME-5>  UTC, with seconds added or taken away
//! iSET_SESSION FIX.4.4:ISLD->TW NEXTSENDERSEQNUM=1           correct a number by hand
//! ```
//!
//! Bytes are separated by 0x01 or, in our own scripts, `|`. Our own scripts also know:
//!
//! ```text
//! # settings: ResetOnLogon=N HeartBtInt=10 ...               one line, before everything
//! iWAIT 12.5                seconds pass                      eNOTHING      nothing more came
//! iAPP D|11=ID|55=X         our application sends             iLOGOUT text  iRESET  our application asks for it
//! iSTALL  iREAD 100  iREAD  reads nothing, 100 more bytes, all that comes again
//! eSEQ 5 7                  next number out, next number in   eCOUNT name n a counter's value
//! eEVENT on_logon ...       the callbacks of the application, in order, since the last eEVENT
//! ```

pub(crate) mod compare;
pub(crate) mod echo;
mod own;
pub(crate) mod parse;
pub(crate) mod run;
pub(crate) mod socket;
pub(crate) mod world;
