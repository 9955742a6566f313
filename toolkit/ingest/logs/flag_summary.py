"""One line of a server's flags for people, without secrets."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

_SECRET = re.compile(
    r"(?i)api_?key|passw|secret|credential|(?:^|_)token$|(?:^|_)auth$|authorization|keyfile_pass"
)
_CREDENTIALS_IN_URL = re.compile(r"://[^/@\s]{1,200}@")
# Of the hundreds that SGLang prints, those that change a cycle's cost.
_TELLING = re.compile(
    r"speculative_(?:algorithm|num_steps|eagle_topk|num_draft_tokens|adaptive|draft_attention_backend|token_map)$"
    r"|(?:tp|dp|pp|ep)_size$|quantization$|dtype$|kv_cache_dtype$|page_size$|max_running_requests$"
    r"|cuda_graph_max_bs(?:_decode)?$|(?:attention|decode_attention|sampling)_backend$|load_format$"
    r"|chunked_prefill_size$|decode_log_interval$|mem_fraction_static$|context_length$|random_seed$|port$"
    r"|tensor_parallel_size$|pipeline_parallel_size$|data_parallel_size$|enforce_eager$|speculative_config$"
    r"|max_seq_len$|seed$|disable_custom_all_reduce$"
)
_SWITCH = re.compile(r"(?:enable|disable)_")
_MASK = "***"


def flag_summary(arguments: dict[str, Any], *, all_of_them: bool) -> str:
    """Return `name=value` words of the flags that are set, without secrets, folders and defaults."""
    words = []
    for name, value in arguments.items():
        telling = all_of_them or _TELLING.match(name) or (value is True and _SWITCH.match(name))
        if telling and value is not None and value is not False:
            words.append(f"{name}={_shown(_without_folders(masked(value, name)))}")
    return " ".join(words)


def masked(value: Any, name: str = "") -> Any:
    """Return a value with what may be secret in it replaced, by the names of its keys."""
    if value is not None and _SECRET.search(name):
        return _MASK
    if isinstance(value, dict):
        return {key: masked(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked(item) for item in value]
    return _CREDENTIALS_IN_URL.sub(f"://{_MASK}@", value) if isinstance(value, str) else value


def _without_folders(value: Any) -> Any:
    """Return a value with paths cut to their last part: where somebody's files lie is theirs."""
    if isinstance(value, dict):
        return {key: _without_folders(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_folders(item) for item in value]
    if isinstance(value, str) and value.startswith(("/", "~/", "./", "../")):
        return PurePath(value).name or value
    return value


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) and value and " " not in value else repr(value)
    return text if len(text) <= 200 else text[:197] + "..."
