"""Colours by name, light and dark.

The five of lines and bars are Okabe and Ito's hues, which the colour-blind tell apart, darkened or lightened
until each is legible as text on both grounds of its theme.
"""

from collections.abc import Mapping

LIGHT: Mapping[str, str] = {
    "ground": "#ffffff",
    "raised": "#f6f7f9",
    "text": "#16191d",
    "quiet": "#565e69",
    "rule": "#dfe3e8",
    "accent": "#005f9e",
    "c0": "#005f9e",
    "c1": "#b24600",
    "c2": "#00704f",
    "c3": "#9a3b7a",
    "c4": "#7a5c00",
    "gain": "#00704f",
    "loss": "#b24600",
}
DARK: Mapping[str, str] = {
    "ground": "#14171b",
    "raised": "#1c2026",
    "text": "#e8eaed",
    "quiet": "#a3abb6",
    "rule": "#343a43",
    "accent": "#6fbdf5",
    "c0": "#6fbdf5",
    "c1": "#ff9b66",
    "c2": "#4fd0a5",
    "c3": "#eaa1cd",
    "c4": "#e2bb58",
    "gain": "#4fd0a5",
    "loss": "#ff9b66",
}


def variables(colours: Mapping[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())
