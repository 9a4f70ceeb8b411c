"""A message has a picture."""

from base64 import b64encode
from pathlib import Path

from agents import Agent, Runner

viewer = Agent(name="viewer", model="gpt-5")
url = f"data:image/png;base64,{b64encode(Path('photo.png').read_bytes()).decode()}"
image = {"type": "input_image", "image_url": url, "detail": "auto"}
content = [{"type": "input_text", "text": "What is this?"}, image]
print(Runner.run_sync(viewer, [{"role": "user", "content": content}]).final_output)
