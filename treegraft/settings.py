"""Settings: what a policy or a drafter lets the user choose, declared once for the CLI, the pages and the docs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


class SettingError(ValueError):
    """A setting that does not exist or a value that is not allowed; the text says what is."""


@dataclass(frozen=True)
class Setting:
    """One choice of the user: its name, type, default, allowed range or choices, and one line of help."""

    name: str
    type: type
    default: Any
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.type is bool:
            return "true or false"
        if self.low is not None and self.high is not None:
            return f"{self.low} to {self.high}"
        return f"any {self.type.__name__}"

    def check(self, value: Any) -> None:
        """Raise `SettingError` unless `value` has the right type and lies in the allowed range."""
        numeric = self.type in (int, float)
        kind = (int, float) if self.type is float else self.type
        good = isinstance(value, kind) and (not numeric or not isinstance(value, bool))
        if good and numeric and self.low is not None:
            good = self.low <= value <= self.high
        if good and self.choices:
            good = value in self.choices
        if not good:
            raise SettingError(f"{self.name} was {value!r}; allowed: {self.allowed}. {self.help}")

    def parse(self, text: str) -> Any:
        """The value that a user typed as `text`."""
        try:
            if self.type is bool:
                return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.lower()]
            return self.type(text)
        except (KeyError, ValueError):
            raise SettingError(f"{self.name} was {text!r}; allowed: {self.allowed}. {self.help}") from None


def setting(default: Any, help: str, *, low: float | None = None, high: float | None = None,
            choices: tuple[str, ...] = ()) -> Any:
    """A dataclass field that carries its range and help text."""
    return dataclasses.field(default=default, metadata={"help": help, "low": low, "high": high, "choices": choices})


@functools.cache
def settings_of(cls: type) -> tuple[Setting, ...]:
    """The settings of a dataclass, in order of declaration."""
    return tuple(Setting(field.name, type(field.default), field.default, **field.metadata)
                 for field in dataclasses.fields(cls) if field.metadata.get("help"))


class Configurable:
    """Base of dataclasses whose fields are settings: values are checked when an object is made."""

    def __post_init__(self) -> None:
        for item in settings_of(type(self)):
            item.check(getattr(self, item.name))

    @property
    def settings(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in settings_of(type(self))}

    @classmethod
    def check_names(cls, names: Iterable[str]) -> None:
        """Raise `SettingError` for a name that is no setting."""
        known = [item.name for item in settings_of(cls)]
        for name in names:
            if name not in known:
                raise SettingError(f"{cls.name} has no setting {name!r}; it has: {', '.join(known) or 'none'}.")

    @classmethod
    def from_text(cls, values: dict[str, str]) -> Configurable:
        """Make one from typed text, e.g. `{"budget": "32"}`; unknown names are refused with the list of known ones."""
        cls.check_names(values)
        known = {item.name: item for item in settings_of(cls)}
        return cls(**{name: known[name].parse(text) for name, text in values.items()})
