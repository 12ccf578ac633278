// SPDX-License-Identifier: Apache-2.0

package gomps

// A network of many views as one of pairs: points of both in the first camera's
// frame, and their confidence.

// pairOnly refuses what only networks of pairs have.
func (l *loaded) pairOnly(what, instead string) error {
	if l.pair != nil {
		return nil
	}
	return &UnsupportedError{l.facts.Variant, what, instead}
}

// pairable says whether a network of many views has what a pair is asked for.
func (l *loaded) pairable(opt InferOptions) error {
	switch {
	case l.pair != nil:
		return nil
	case opt.Rectangle43:
		return &UnsupportedError{l.facts.Variant, "a cut of square pictures to 4:3", "leave Rectangle43 out: nothing is cut"}
	}
	return viewOutputs(l.facts.Variant, opt.Only)
}

// viewOutputs refuses the outputs that networks of many views do not have.
func viewOutputs(variant string, only Outputs) error {
	if only&(OutputDesc|OutputDescConf) == 0 {
		return nil
	}
	return &UnsupportedError{variant, "descriptors",
		"ask for points and conf; the scene of InferViews gives matches by geometry, and MASt3R networks have descriptors"}
}

// pairByViews fills in the two views of a pair.
func (j *job) pairByViews(a, b *picture, va, vb *View, t *Timing) error {
	if a.height != b.height || a.width != b.width {
		return &ShapeError{"features", a.size() + " and " + b.size() + " (height x width)", "pictures of one size"}
	}
	c := &viewsCall{job: j, opt: ViewsOptions{Reference: ReferenceRules[0]}, pics: []*picture{a, b}, out: &Scene{View: make([]SceneView, 2)}}
	err := c.run()
	t.add(c.out.Timing)
	for i, v := range []*View{va, vb} {
		s := &c.out.View[i]
		v.Points, v.Conf, v.Transform = s.Points, s.Conf, s.Transform
		s.Points, s.Conf = nil, nil
		s.Release()
		if Outputs(j.want)&OutputPoints == 0 && v.Points != nil {
			v.Points.Release()
			v.Points = nil
		}
		if Outputs(j.want)&OutputConf == 0 && v.Conf != nil {
			v.Conf.Release()
			v.Conf = nil
		}
	}
	return err
}

// sequenceByViews is InferSequence with a network of many views.
func (j *job) sequenceByViews(images []Image, opt InferOptions) ([]*Result, error) {
	j.fitViews = j.fitSequence
	plans, err := j.plans(0, images, opt)
	if err != nil {
		return nil, err
	}
	if err := j.admit(plans, false); err != nil {
		return nil, err
	}
	// One picture after another: a long sequence has never more than two in memory.
	before, err := j.prepareOne(0, images[0], plans[0])
	if err != nil {
		return nil, err
	}
	out := make([]*Result, len(images)-1)
	for i := range out {
		next, err := j.prepareOne(i+1, images[i+1], plans[i+1])
		if err != nil {
			return nil, err
		}
		out[i] = &Result{}
		if err := j.pairByViews(before, next, &out[i].View[0], &out[i].View[1], &out[i].Timing); err != nil {
			return nil, err
		}
		before.feat.Release()
		before = next
	}
	for _, r := range out {
		j.keep(&r.Timing)
	}
	return out, nil
}
