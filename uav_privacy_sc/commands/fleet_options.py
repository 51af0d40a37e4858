"""The options of ``fleet``; its group, which ``fleet vertical`` joins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uav_privacy_sc.commands.fleet_vertical import vertical
from uav_privacy_sc.commands.options import COMPUTER, PRIVACY, RADIO, Json

app = typer.Typer(help="A fleet that learns together: federated update of the codec (P3), vertical learning (P2).")
app.command("vertical")(vertical)


@app.callback(invoke_without_command=True)
def fleet(
    context: typer.Context,
    preset: Annotated[
        str, typer.Option(help="How much is done: smoke (minutes) or paper (days on few cores).")
    ] = "smoke",
    data: Annotated[
        str, typer.Option(help="synthetic, synthetic:SEED, a CIFAR-10 folder (pickles or binary) or one of images.")
    ] = "synthetic",
    out: Annotated[
        Path,
        typer.Option(help="Folder for curves, tables, report.html, ledgers and what an interrupted run goes on from."),
    ] = Path("out/fleet/experiments"),
    figure: Annotated[
        list[str] | None,
        typer.Option(
            help="curves (always), sigma, uneven, threshold or all; several times. As the preset if left out."
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="T, instead of the preset's.")] = None,
    clients: Annotated[int | None, typer.Option(help="K, instead of the preset's.")] = None,
    per_round: Annotated[int | None, typer.Option(help="Clients that are asked in a round.")] = None,
    minimum: Annotated[
        int | None, typer.Option(help="Uploads without which a round is repeated; half if left out.")
    ] = None,
    pictures: Annotated[int | None, typer.Option(help="How many to render, or to take at most.")] = None,
    split: Annotated[str, typer.Option(help="iid, or dirichlet: uneven by label.")] = "iid",
    model: Annotated[str, typer.Option(help="autoencoder (P3's), or codec: the flight's own.")] = "autoencoder",
    weights: Annotated[
        Path | None, typer.Option(help="codec: folder to start from; the shipped one if left out.")
    ] = None,
    sigma: Annotated[
        float, typer.Option(help="sigma_1 = sigma_2, noise of selection and values.", rich_help_panel=PRIVACY)
    ] = 0.001,
    sigma_2: Annotated[
        float | None, typer.Option("--sigma-2", help="Noise of the values, if another.", rich_help_panel=PRIVACY)
    ] = None,
    bound: Annotated[
        float | None, typer.Option(help="G: L1 norm to which every update is clipped.", rich_help_panel=PRIVACY)
    ] = None,
    values: Annotated[
        str, typer.Option(help="fresh (P3), or same: of the selection itself, for less.", rich_help_panel=PRIVACY)
    ] = "fresh",
    epsilon_ceiling: Annotated[
        float | None, typer.Option(help="Worst-case epsilon at which a client stops.", rich_help_panel=PRIVACY)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of everything: repeatable, so not private.", rich_help_panel=PRIVACY)
    ] = None,
    threshold: Annotated[float, typer.Option(help="S_th/N: below it features are sent.", rich_help_panel=RADIO)] = 0.15,
    snr: Annotated[float, typer.Option(help="Of training and test, in dB.", rich_help_panel=RADIO)] = 20.0,
    snr_per: Annotated[
        str, typer.Option(help="What the SNR is of: vector (as P3 writes it) or symbol.", rich_help_panel=RADIO)
    ] = "vector",
    backend: Annotated[
        str, typer.Option(help="ray (all cores) or local (this process); the bits agree.", rich_help_panel=COMPUTER)
    ] = "ray",
    jobs: Annotated[int | None, typer.Option(help="ray: cores; all if left out.", rich_help_panel=COMPUTER)] = None,
    json: Json = False,
) -> None:
    """A fleet that learns together (P3): five curves of PSNR against round, sweeps, and their epsilon, told straight.

    An interrupted run goes on when the same command is given again. docs/fleet.md says how to fly it across machines.
    """
    if context.invoked_subcommand is not None:
        return
    from uav_privacy_sc.commands.fleet import FleetOrder, carry_out

    order = FleetOrder(
        preset=preset,
        data=data,
        out=out,
        figures=tuple(figure or ()),
        rounds=rounds,
        clients=clients,
        per_round=per_round,
        minimum=minimum,
        pictures=pictures,
        split=split,
        sigma=sigma,
        sigma_2=sigma_2,
        bound=bound,
        values=values,
        threshold=threshold,
        snr_db=snr,
        snr_per=snr_per,
        ceiling=epsilon_ceiling,
        model=model,
        weights=weights,
        backend=backend,
        jobs=jobs,
        seed=seed,
        as_json=json,
    )
    raise typer.Exit(carry_out(order))
