"""One model-neutral scheduler: propose, verify in one pass, sample, commit, emit.

Pure Python: no engine, no file, no clock but the one handed in. An engine
implements the protocols of `power.speculation.protocols`.
"""
