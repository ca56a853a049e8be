"""What the pictures in docs/ begin with."""


def opened(title: str, beneath: str, width: int, height: int, style: str) -> list[str]:
    """The lines of an SVG up to its heading; `beneath` stands under that."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{title}">',
        f"<style>{style}</style>",
        f'<text class="title" x="12" y="22">{title}</text>',
        f'<text class="small" x="12" y="40">{beneath}</text>',
    ]
